/**
 * A screenshot with at most 256 colours: a third of the bytes, and nothing an eye would miss, for a page is made of few
 * colours and the soft edges of letters. Frequent colours stay as they are; any other becomes the nearest of those.
 */
import { crc32, deflateSync, inflateSync } from 'node:zlib'

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const mostColours = 256

/** Takes a PNG of 8 bits a channel, as browsers write it. */
export function toPalette(png: Buffer): Buffer {
  const { width, height, channels, pixels } = decode(png)
  const colours = new Uint32Array(width * height)
  const counts = new Map<number, number>()
  for (let at = 0; at < colours.length; at++) {
    const from = at * channels
    const colour = (pixels[from]! << 16) | (pixels[from + 1]! << 8) | pixels[from + 2]!
    colours[at] = colour
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const palette = choose([...counts].sort(([, a], [, b]) => b - a).map(([colour]) => colour))
  const places = new Map(palette.map((colour, at) => [colour, at]))
  // Unfiltered rows: between places in a palette there is nothing to be gained by differences.
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const colour = colours[y * width + x]!
      let place = places.get(colour)
      if (place === undefined) {
        place = nearest(palette, colour)
        places.set(colour, place)
      }
      rows[y * (width + 1) + 1 + x] = place
    }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits a pixel, each a place in the palette.
  header.set([8, 3, 0, 0, 0], 8)
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('PLTE', table),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The most frequent, which are grounds and letters; and of all others some that are as far apart as leaves none without a near one. */
function choose(frequent: readonly number[]): number[] {
  for (let apart = 0; ; apart = apart * 2 + 8) {
    const palette = frequent.slice(0, mostColours / 2)
    for (const colour of frequent.slice(palette.length)) {
      if (palette.every((other) => distance(colour, other) > apart)) palette.push(colour)
      if (palette.length > mostColours) break
    }
    if (palette.length <= mostColours) return palette
  }
}

function nearest(palette: readonly number[], colour: number): number {
  let best = 0
  for (const [at, other] of palette.entries())
    if (distance(colour, other) < distance(colour, palette[best]!)) best = at
  return best
}

/** An eye sees differences of green best and of blue worst. */
function distance(colour: number, other: number): number {
  const red = (colour >> 16) - (other >> 16)
  const green = ((colour >> 8) & 255) - ((other >> 8) & 255)
  const blue = (colour & 255) - (other & 255)
  return 3 * red * red + 6 * green * green + blue * blue
}

interface Decoded {
  readonly width: number
  readonly height: number
  readonly channels: 3 | 4
  readonly pixels: Buffer
}

function decode(png: Buffer): Decoded {
  if (!png.subarray(0, 8).equals(signature)) throw new Error('This is no PNG.')
  const data: Buffer[] = []
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') data.push(png.subarray(at + 8, at + 8 + length))
    at += length + 12
  }
  const width = png.readUInt32BE(16)
  const height = png.readUInt32BE(20)
  const [depth, kind, , , interlaced] = png.subarray(24, 29)
  if (depth !== 8 || (kind !== 2 && kind !== 6) || interlaced !== 0)
    throw new Error(`A PNG of ${depth} bits and kind ${kind} is not what browsers write.`)
  const channels = kind === 2 ? 3 : 4
  return {
    width,
    height,
    channels,
    pixels: unfilter(inflateSync(Buffer.concat(data)), width * channels, channels),
  }
}

/** Each row begins with how it is written as differences to its left and upper neighbours. */
function unfilter(rows: Buffer, stride: number, channels: number): Buffer {
  const height = rows.length / (stride + 1)
  const out = Buffer.alloc(height * stride)
  for (let y = 0; y < height; y++) {
    const filter = rows[y * (stride + 1)]!
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x
      const left = x < channels ? 0 : out[at - channels]!
      const up = y === 0 ? 0 : out[at - stride]!
      const corner = x < channels || y === 0 ? 0 : out[at - stride - channels]!
      out[at] = rows[y * (stride + 1) + 1 + x]! + predicted(filter, left, up, corner)
    }
  }
  return out
}

function predicted(filter: number, left: number, up: number, corner: number): number {
  switch (filter) {
    case 1:
      return left
    case 2:
      return up
    case 3:
      return (left + up) >> 1
    case 4: {
      const guess = left + up - corner
      const [toLeft, toUp, toCorner] = [left, up, corner].map((one) => Math.abs(guess - one)) as [
        number,
        number,
        number,
      ]
      if (toLeft <= toUp && toLeft <= toCorner) return left
      return toUp <= toCorner ? up : corner
    }
    default:
      return 0
  }
}

function chunk(name: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data])
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(data.length, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}
