import { EventEmitter } from 'node:events'
import { Connection } from 'pg'
import { describe, expect, test } from 'vitest'
import { type EncodedStep, encodeStep, sendPacket } from './packet.ts'
import { PacketBytes, type Value } from './packet-bytes.ts'

describe('the bytes of a packet', () => {
  const texts = ['', 'a', 'größer', '价格', '🦉 owl', 'x'.repeat(20_000), '🦉'.repeat(9_000)]
  const values: readonly (readonly Value[])[] = [
    [],
    [null],
    texts,
    [Buffer.from([0, 255, 1]), 'between', null, Buffer.alloc(70_000, 7)],
    Array.from({ length: 65_535 }, (_, at) => String(at)),
  ]

  test('are those that the driver sends', () => {
    const bytes = new PacketBytes()
    for (const some of values) {
      for (const name of ['', 'signalbox_1', 'ä']) {
        bytes.close(name)
        bytes.parse(name, `SELECT '${name}🦉'`)
        bytes.bind(name, some)
        bytes.describe()
        bytes.execute()
        const ours = bytes.sync()
        const theirs = sentByDriver((driver) => {
          driver.close({ type: 'S', name })
          driver.parse({ name, text: `SELECT '${name}🦉'` })
          driver.bind({ statement: name, values: some })
          driver.describe({ type: 'P', name: '' })
          driver.execute({ portal: '' })
          driver.sync()
        })
        expect(ours.equals(theirs)).toBe(true)
      }
    }
  })

  test('one packet keeps its bytes when the next is put together', () => {
    const bytes = new PacketBytes()
    bytes.bind('first', ['1'])
    const first = bytes.sync()
    const before = Buffer.from(first)
    bytes.bind('other', ['2'])
    bytes.sync()
    expect(first.equals(before)).toBe(true)
  })

  test('what cannot be put together ends its connection, and is in no other packet', async () => {
    const tooLarge = {
      get length(): number {
        throw new RangeError('too large')
      },
    } as unknown as Buffer
    const send = (values: EncodedStep['values']) => {
      const socket = { isDestroyed: false, written: [] as Buffer[] }
      const stream = {
        ...{ writable: true, write: (packet: Buffer) => socket.written.push(packet) },
        destroy() {
          socket.isDestroyed = true
        },
      }
      const client = { query: (packet: { submit(connection: unknown): void }) => packet.submit({ stream }) }
      const content = { riding: [{ text: 'BEGIN' }], steps: [{ text: 'SELECT $1', values }], main: 0 }
      return { socket, answer: sendPacket(client as never, undefined, content as never) }
    }
    const { socket, answer } = send([tooLarge])
    await expect(answer).rejects.toThrow('too large')
    expect([socket.written.length, socket.isDestroyed]).toEqual([0, true])

    const whole = new PacketBytes()
    for (const [text, some] of [
      ['BEGIN', []],
      ['SELECT $1', ['1']],
    ] as const) {
      whole.parse('', text)
      whole.bind('', some)
      if (text !== 'BEGIN') whole.describe()
      whole.execute()
    }
    expect(send(['1']).socket.written[0]!.equals(whole.sync())).toBe(true)
  })

  test('more parameters than can be counted are refused before anything is sent', () => {
    const values = Array.from({ length: 65_536 }, () => '1')
    expect(() => encodeStep({ text: 'SELECT 1', values })).toThrow(
      new RangeError('A statement has at most 65535 parameters, not 65536.'),
    )
  })
})

interface Driver {
  close(statement: { type: 'S'; name: string }): void
  parse(statement: { name: string; text: string }): void
  bind(statement: { statement: string; values: readonly Value[] }): void
  describe(portal: { type: 'P'; name: '' }): void
  execute(portal: { portal: '' }): void
  sync(): void
}

/** All that a connection of the driver's writes. */
function sentByDriver(send: (driver: Driver) => void): Buffer {
  const written: Buffer[] = []
  const stream = Object.assign(new EventEmitter(), {
    writable: true,
    write: (bytes: Buffer) => written.push(Buffer.from(bytes)),
  })
  send(new Connection({ stream: stream as never }) as unknown as Driver)
  return Buffer.concat(written)
}
