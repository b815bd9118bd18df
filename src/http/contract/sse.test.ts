import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import {
  EventParser,
  encodeComment,
  encodeEvent,
  encodeRetry,
  maxEventLength,
  type ParsedEvent,
} from './sse.ts'

const encoder = new TextEncoder()

interface Read {
  readonly events: readonly ParsedEvent[]
  readonly lastEventId: string
  readonly retryMs: number | undefined
}

function read(chunks: readonly Uint8Array[]): Read {
  const events: ParsedEvent[] = []
  const parser = new EventParser((event) => events.push(event))
  for (const chunk of chunks) parser.push(chunk)
  return { events, lastEventId: parser.lastEventId, retryMs: parser.retryMs }
}

const readText = (text: string) => read([encoder.encode(text)])

/** The standard by the letter, on the whole text at once. */
function readByTheBook(bytes: Uint8Array): Read {
  const text = new TextDecoder().decode(bytes)
  const lines = text.split(/\r\n|\r|\n/)
  // What has no line end is incomplete.
  lines.pop()
  const events: ParsedEvent[] = []
  let [data, type, id, lastEventId] = ['', '', '', '']
  let retryMs: number | undefined
  for (const line of lines) {
    if (line === '') {
      lastEventId = id
      if (data !== '') events.push({ id, type: type || 'message', data: data.replace(/\n$/, '') })
      data = ''
      type = ''
      continue
    }
    if (line.startsWith(':')) continue
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    if (field === 'data') data += `${value}\n`
    if (field === 'event') type = value
    if (field === 'id' && !value.includes('\0')) id = value
    if (field === 'retry' && /^\d+$/.test(value)) retryMs = Number(value)
  }
  return { events, lastEventId, retryMs }
}

const piece = fc.oneof(
  fc.constantFrom(
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    ':',
    ': ',
    ' ',
    '\0',
    '\uFEFF',
    'data',
    'data:',
    'data: ',
    'id: ',
  ),
  fc.constantFrom('event: ', 'retry: ', 'retry:12', 'id:7\n', 'Data: x\n', 'data: é漢😀\n\n', 'data\n\n'),
  fc.string({ unit: 'binary', maxLength: 6 }),
)
const anyStream = fc.oneof(
  fc.array(piece, { maxLength: 40 }).map((pieces) => encoder.encode(pieces.join(''))),
  // Also what is no text at all.
  fc
    .array(
      fc.oneof(
        piece.map((text) => encoder.encode(text)),
        fc.uint8Array({ maxLength: 5 }),
      ),
      { maxLength: 30 },
    )
    .map((parts) => Uint8Array.from(parts.flatMap((part) => [...part]))),
)

test('any stream gives the events of the standard, however its bytes are split', () => {
  fc.assert(
    fc.property(anyStream, fc.array(fc.nat({ max: 7 }), { minLength: 1 }), (bytes, sizes) => {
      const chunks: Uint8Array[] = []
      for (let at = 0, nth = 0; at < bytes.length; nth++) {
        const size = sizes[nth % sizes.length]! + (nth % 5 === 0 ? 1 : 0)
        chunks.push(bytes.subarray(at, at + size))
        at += size
      }
      const whole = readByTheBook(bytes)
      assert.deepEqual(read(chunks), whole)
      assert.deepEqual(read([bytes]), whole)
    }),
    { numRuns: 3_000 },
  )
})

test('one byte order mark is removed, and no second one, however the bytes are split', () => {
  const bytes = encoder.encode('\uFEFF\uFEFFdata: x\n\ndata: y\n\n')
  for (let cut = 1; cut < 8; cut++)
    assert.deepEqual(read([bytes.subarray(0, cut), bytes.subarray(cut)]), readByTheBook(bytes), `${cut}`)
})

test('an encoded event decodes to the same event', () => {
  const line = fc.string({ unit: 'grapheme' }).filter((text) => !/[\r\n\0]/.test(text))
  const event = fc.record({ id: line, type: line, data: fc.string({ unit: 'grapheme' }) })
  fc.assert(
    fc.property(fc.array(event), (events) => {
      const { events: got } = readText(events.map(encodeEvent).join(''))
      const expected = events.map(({ id, type, data }) => ({
        id,
        type: type || 'message',
        data: data.replace(/\r\n?/g, '\n'),
      }))
      assert.deepEqual(got, expected)
    }),
  )
})

test('an event is written in the order id, event, data, with a data line for each of its lines', () => {
  assert.equal(
    encodeEvent({ id: 7, type: 'queues', data: 'a\nb\r\nc\rd' }),
    'id: 7\nevent: queues\ndata: a\ndata: b\ndata: c\ndata: d\n\n',
  )
  assert.equal(encodeEvent({ data: '' }), 'data: \n\n')
  assert.equal(encodeComment(), ': \n\n')
  assert.equal(encodeRetry(1_500.4), 'retry: 1500\n\n')
})

test('a type, an id or a comment with a line break is refused', () => {
  for (const bad of ['a\nb', 'a\rb', 'a\0b']) {
    assert.throws(() => encodeEvent({ type: bad, data: '' }), { code: 'invalid_argument' })
    assert.throws(() => encodeEvent({ id: bad, data: '' }), { code: 'invalid_argument' })
    assert.throws(() => encodeComment(bad), { code: 'invalid_argument' })
  }
})

test('an id applies from its event until the next id, and is remembered also without data', () => {
  const { events, lastEventId } = readText(
    'id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: 4\n\nid: 5\ndata: lost',
  )
  assert.deepEqual(
    events.map(({ id, data }) => [id, data]),
    [
      ['1', 'a'],
      ['1', 'b'],
      ['', 'c'],
    ],
  )
  // The event of id 5 never ended.
  assert.equal(lastEventId, '4')
})

test('an id with NUL is ignored, and a retry time counts only in digits', () => {
  assert.equal(readText('id: 1\nid: 2\0\ndata: x\n\n').lastEventId, '1')
  assert.equal(readText('retry: 2500\n').retryMs, 2_500)
  for (const bad of ['', ' ', '1.5', '-1', '1e3', '٣', '5 ']) {
    assert.equal(readText(`retry: 7\nretry: ${bad}\n`).retryMs, 7)
  }
  assert.equal(readText(`retry: ${'9'.repeat(400)}\n`).retryMs, 2 ** 31 - 1)
})

test('one byte order mark at the very start is skipped, also byte by byte', () => {
  const bytes = encoder.encode('\uFEFFdata: a\n\n\uFEFFdata: b\n\n')
  const { events } = read([...bytes].map((byte) => Uint8Array.of(byte)))
  assert.deepEqual(
    events.map(({ data }) => data),
    ['a'],
  )
})

test('an event above the limit is an error, in one chunk or in many', () => {
  const fits = 'x'.repeat(maxEventLength - 'data: '.length)
  assert.equal(readText(`data: ${fits}\n\n`).events.length, 1)
  const many = `data: ${'y'.repeat(1_000)}\n`.repeat(1_100)
  for (const text of [`data: ${fits}x\n\n`, `: ${fits}xxxxx`, many]) {
    const bytes = encoder.encode(text)
    const chunks: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += 4_096) chunks.push(bytes.subarray(at, at + 4_096))
    assert.throws(() => read([bytes]), { code: 'too_large' })
    assert.throws(() => read(chunks), { code: 'too_large' })
  }
  // Comments are not kept, so their sum is no matter.
  assert.equal(readText(`: ${'z'.repeat(1_000)}\n`.repeat(2_000)).events.length, 0)
})

test('the events before one that is too large are returned', () => {
  const events: ParsedEvent[] = []
  const parser = new EventParser((event) => events.push(event), { lastEventId: '3' })
  assert.equal(parser.lastEventId, '3')
  const text = `data: first\n\ndata: ${'x'.repeat(maxEventLength)}\n\n`
  assert.throws(() => parser.push(encoder.encode(text)), { code: 'too_large' })
  assert.deepEqual(events, [{ id: '3', type: 'message', data: 'first' }])
})
