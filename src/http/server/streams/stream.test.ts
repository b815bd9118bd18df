import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import { createFakeClock, type FakeClock } from '../../../core/fake-clock.ts'
import { EventParser, type ParsedEvent } from '../../contract/index.ts'
import type { Feed, FeedEvent, FeedReader, OutgoingStream, Principal } from '../call.ts'
import { Streams, type StreamsOptions } from './stream.ts'
import type { Transport, TransportOwner } from './transport.ts'

const principal: Principal = { id: 't1', scope: 'read', namespace: 'default', everyNamespace: false }

/** A connection whose other side reads when it is told to. */
class FakeTransport implements Transport {
  owner: TransportOwner | undefined
  text = ''
  takes = true
  fate: 'open' | 'ended' | 'destroyed' = 'open'

  attach(owner: TransportOwner): void {
    this.owner = owner
  }
  write(chunk: Uint8Array): boolean {
    this.text += Buffer.from(chunk).toString()
    return this.takes
  }
  end(): void {
    this.fate = 'ended'
  }
  destroy(): void {
    this.fate = 'destroyed'
  }
  /** Reads all there is, and what comes. */
  drain(): void {
    this.takes = true
    this.owner!.drained()
  }
  get events(): readonly ParsedEvent[] {
    const events: ParsedEvent[] = []
    new EventParser((event) => events.push(event)).push(Buffer.from(this.text))
    return events
  }
  get retryMs(): number | undefined {
    const parser = new EventParser(() => {})
    parser.push(Buffer.from(this.text))
    return parser.retryMs
  }
  get commentCount(): number {
    return this.text.split('\n').filter((line) => line.startsWith(':')).length
  }
  get lastError(): { code: string; message: string } {
    const last = this.events.at(-1)!
    assert.equal(last.type, 'error')
    return JSON.parse(last.data)
  }
}

class FakeFeed implements Feed {
  readonly readers = new Set<FeedReader>()
  openedWith: (string | undefined)[] = []
  open(lastEventId: string | undefined, reader: FeedReader): () => void {
    this.openedWith.push(lastEventId)
    this.readers.add(reader)
    reader.send({ id: 1, type: 'state', data: { now: true } })
    return () => this.readers.delete(reader)
  }
  tell(event: FeedEvent): void {
    for (const reader of this.readers) reader.send(event)
  }
}

interface Stage {
  readonly streams: Streams
  readonly clock: FakeClock
  readonly feed: FakeFeed
  /** Who waits to hear that the token counts no more. */
  readonly watchers: Set<(reason: SignalboxError) => void>
  /** How the streams that are over have ended. */
  readonly ends: ('ended' | 'dropped')[]
  readonly errors: unknown[]
  open(feed?: Feed, lastEventId?: string): FakeTransport
  outgoing(feed?: Feed, lastEventId?: string): OutgoingStream
}

function aStage(options: StreamsOptions = {}): Stage {
  const clock = createFakeClock()
  const feed = new FakeFeed()
  const watchers = new Set<(reason: SignalboxError) => void>()
  const errors: unknown[] = []
  const ends: Stage['ends'] = []
  const streams = new Streams({
    authenticator: {
      watch(_principal, ended) {
        watchers.add(ended)
        return () => watchers.delete(ended)
      },
    },
    clock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    ...options,
  })
  const outgoing = (of: Feed = feed, lastEventId?: string): OutgoingStream => ({
    status: 200,
    headers: {},
    feed: of,
    lastEventId,
    principal,
    ended: (how) => ends.push(how),
  })
  return {
    streams,
    clock,
    feed,
    watchers,
    errors,
    ends,
    outgoing,
    open(of, lastEventId) {
      const transport = new FakeTransport()
      streams.serve(outgoing(of, lastEventId), transport)
      return transport
    },
  }
}

test('a stream starts with its reconnect time, followed by the events of its feed', () => {
  for (const [random, retryMs] of [
    [0, 1_000],
    [0.999, 2_998],
  ] as const) {
    const { open, feed } = aStage({ random: () => random })
    const reader = open(undefined, '17')
    assert.match(reader.text, /^retry: \d+\n\n/)
    assert.equal(reader.retryMs, retryMs)
    assert.deepEqual(reader.events, [{ id: '1', type: 'state', data: '{"now":true}' }])
    assert.deepEqual(feed.openedWith, ['17'])
  }
})

test('an idle stream gets a comment every 15 s, the first one within that time', () => {
  const { open, clock, streams } = aStage()
  const readers = Array.from({ length: 100 }, () => open())
  assert.equal(streams.size, 100)
  clock.advance(15_000)
  for (const reader of readers) assert.equal(reader.commentCount, 1)
  clock.advance(30_000)
  for (const reader of readers) assert.equal(reader.commentCount, 3)
})

test('an event is encoded once, however many readers there are', () => {
  const { open, feed } = aStage()
  const readers = Array.from({ length: 10 }, () => open())
  let count = 0
  feed.tell({ id: 2, type: 'x', data: { toJSON: () => ++count } })
  assert.equal(count, 1)
  for (const reader of readers) assert.deepEqual(reader.events.at(-1), { id: '2', type: 'x', data: '1' })
})

test('an id comes once and never falls', () => {
  const { open, feed } = aStage()
  const reader = open()
  for (const id of [3, 3, 2, 4]) feed.tell({ id, type: 'x', data: id })
  feed.tell({ type: 'hint', data: 0 })
  assert.deepEqual(
    reader.events.map(({ id, type }) => `${type} ${id}`),
    ['state 1', 'x 3', 'x 4', 'hint 4'],
  )
})

test('data that a reader does not take at once waits for it, in order', () => {
  const { open, feed, streams } = aStage()
  const reader = open()
  reader.takes = false
  for (let id = 2; id <= 5; id++) feed.tell({ id, type: 'x', data: id })
  // The first was written before it said no; a full connection still takes what it is given.
  assert.equal(reader.events.length, 2)
  assert.ok(streams.bufferedBytes > 0)
  reader.owner!.drained()
  assert.equal(reader.events.length, 3)
  reader.drain()
  assert.equal(streams.bufferedBytes, 0)
  feed.tell({ id: 6, type: 'x', data: 6 })
  assert.deepEqual(
    reader.events.map(({ id }) => id),
    ['1', '2', '3', '4', '5', '6'],
  )
})

test('a reader that is too slow gets the reason and is cut, and no other reader is affected', () => {
  const { open, feed, streams, clock, ends } = aStage({ maxBufferedBytes: 1_000 })
  const slow = open()
  const fast = open()
  slow.takes = false
  for (let id = 2; id < 30; id++) feed.tell({ id, type: 'x', data: 'y'.repeat(100) })
  assert.equal(slow.lastError.code, 'too_many')
  assert.match(slow.lastError.message, /slowly/)
  assert.equal(slow.fate, 'ended')
  assert.equal(fast.events.length, 29)
  assert.equal(feed.readers.size, 1)
  assert.equal(streams.size, 1)
  assert.equal(streams.bufferedBytes, 0)
  // It does not even read that.
  clock.advance(1_999)
  assert.equal(slow.fate, 'ended')
  clock.advance(1)
  assert.equal(slow.fate, 'destroyed')
  assert.deepEqual(ends, ['dropped'])
  assert.equal(fast.fate, 'open')
})

test('500 readers that read nothing hold only their share, and a normal reader gets everything', () => {
  const { open, feed, streams } = aStage()
  const stuck = Array.from({ length: 500 }, () => open())
  const good = open()
  for (const reader of stuck) reader.takes = false
  let most = 0
  for (let id = 2; id < 502; id++) {
    feed.tell({ id, type: 'x', data: 'y'.repeat(1_000) })
    most = Math.max(most, streams.bufferedBytes)
  }
  assert.ok(most <= 500 * 262_144, `${most} bytes were buffered`)
  assert.ok(most > 500 * 250_000)
  assert.equal(streams.bufferedBytes, 0)
  assert.equal(streams.size, 1)
  assert.equal(good.events.length, 501)
  // Beyond its queue a connection has taken one event, the preface and the last words.
  for (const reader of stuck) assert.ok(reader.text.length < 2_000)
})

test('a reader whose connection stays full is cut even when nothing is sent to it', () => {
  const { open, feed, clock } = aStage()
  const stuck = open()
  const slow = open()
  for (const reader of [stuck, slow]) reader.takes = false
  feed.tell({ id: 2, type: 'x', data: 2 })
  clock.advance(15_000)
  assert.equal(stuck.fate, 'open')
  slow.drain()
  clock.advance(15_000)
  assert.equal(stuck.lastError.code, 'too_many')
  assert.equal(slow.fate, 'open')
})

test('an ended token ends its streams with the reason', () => {
  const { open, watchers, feed } = aStage()
  const reader = open()
  const [ended] = watchers
  ended!(new SignalboxError('unauthorized', 'The token was revoked.'))
  assert.deepEqual(reader.lastError, { code: 'unauthorized', message: 'The token was revoked.' })
  assert.equal(reader.fate, 'ended')
  assert.equal(feed.readers.size, 0)
  assert.equal(watchers.size, 0)
  feed.tell({ id: 9, type: 'x', data: 'secret' })
  assert.doesNotMatch(reader.text, /secret/)
})

test('a token that is found ended while the stream opens gets no event', () => {
  const feed = new FakeFeed()
  let unwatched = 0
  const streams = new Streams({
    authenticator: {
      watch(_principal, ended) {
        ended(new SignalboxError('unauthorized', 'Gone.'))
        return () => unwatched++
      },
    },
    clock: createFakeClock(),
  })
  const reader = new FakeTransport()
  streams.serve(
    { status: 200, headers: {}, feed, lastEventId: undefined, principal, ended: () => {} },
    reader,
  )
  assert.deepEqual(
    reader.events.map(({ type }) => type),
    ['error'],
  )
  assert.deepEqual(feed.openedWith, [])
  assert.equal(unwatched, 1)
  assert.equal(streams.size, 0)
})

test('a reader learns that its feed failed, without details of unexpected errors', () => {
  const { open, errors, watchers } = aStage()
  const failing: Feed = {
    open(_id, reader) {
      reader.fail(new SignalboxError('store_unavailable', 'The store does not answer.'))
      return () => {}
    },
  }
  assert.equal(open(failing).lastError.code, 'store_unavailable')
  assert.equal(errors.length, 0)

  const broken: Feed = {
    open() {
      throw new Error('the password is hunter2')
    },
  }
  const reader = open(broken)
  assert.equal(reader.lastError.code, 'internal')
  assert.doesNotMatch(reader.text, /hunter2/)
  assert.equal(errors.length, 1)

  const unspeakable: Feed = {
    open(_id, inner) {
      inner.send({ type: 'a\nb', data: 1 })
      return () => {}
    },
  }
  assert.equal(open(unspeakable).fate, 'ended')
  assert.equal(watchers.size, 0)
})

test('a feed that ends the stream while it opens is released', () => {
  const { open } = aStage({ maxBufferedBytes: 10 })
  let left = 0
  const eager: Feed = {
    open(_id, reader) {
      reader.fail(new SignalboxError('draining', 'Later.'))
      reader.send({ type: 'x', data: 1 })
      return () => left++
    },
  }
  open(eager)
  assert.equal(left, 1)
})

test('a client that has gone leaves nothing of its stream behind', () => {
  const { open, feed, watchers, clock, streams, ends } = aStage()
  const reader = open()
  reader.owner!.closed()
  reader.owner!.closed()
  assert.equal(feed.readers.size, 0)
  assert.equal(watchers.size, 0)
  assert.equal(streams.size, 0)
  assert.equal(clock.timerCount, 0)
  assert.deepEqual(ends, ['ended'])
  const before = reader.text
  clock.advance(60_000)
  assert.equal(reader.text, before)
})

test('a client that left before its stream began opens no feed', () => {
  const { streams, outgoing, feed, ends } = aStage()
  const reader = new FakeTransport()
  reader.attach = (owner) => owner.closed()
  streams.serve(outgoing(), reader)
  assert.deepEqual(ends, ['ended'])
  assert.deepEqual(feed.openedWith, [])
  assert.equal(streams.size, 0)
})

test('closing sends every reader a reconnect time, spread out, and ends its stream', async () => {
  let drawn = 0
  const { open, streams, clock } = aStage({ random: () => (drawn++ % 100) / 100 })
  const readers = Array.from({ length: 5_000 }, () => open())
  const closed = streams.close()
  assert.equal(streams.close(), closed)
  const waits = readers.map((reader) => {
    assert.equal(reader.fate, 'ended')
    return reader.retryMs!
  })
  assert.ok(Math.min(...waits) >= 2_000)
  // 5,000 readers are spread over 5 s.
  assert.ok(Math.max(...waits) > 6_900 && Math.max(...waits) < 7_000)
  assert.equal(streams.size, 0)
  for (const reader of readers.slice(1)) reader.owner!.closed()
  // One never reads what it was told.
  clock.advance(2_000)
  assert.equal(readers[0]!.fate, 'destroyed')
  await closed
  assert.equal(clock.timerCount, 0)

  const late = open()
  assert.equal(late.fate, 'ended')
  assert.equal(late.events.length, 0)
  assert.ok(late.retryMs! >= 2_000)
})

test('closing without open streams is done at once', async () => {
  await aStage().streams.close()
})

test('a stream can be the body of a Response, and ends when that is cancelled', async () => {
  const { streams, outgoing, feed, ends } = aStage()
  const body = streams.toBody(outgoing())
  const reader = body.getReader()
  const events: ParsedEvent[] = []
  const parser = new EventParser((event) => events.push(event))
  const readUntil = async (count: number) => {
    while (events.length < count) parser.push((await reader.read()).value!)
  }
  await readUntil(1)
  feed.tell({ id: 2, type: 'x', data: 'é' })
  await readUntil(2)
  assert.deepEqual(events[1], { id: '2', type: 'x', data: '"é"' })
  await reader.cancel()
  assert.equal(feed.readers.size, 0)
  assert.deepEqual(ends, ['ended'])
})

test('an unread body is bounded, and continues when it is read again', async () => {
  const { streams, outgoing, feed } = aStage()
  const abandoned = streams.toBody(outgoing())
  const paused = streams.toBody(outgoing())
  for (let id = 2; id < 200; id++) feed.tell({ id, type: 'x', data: 'y'.repeat(1_000) })
  assert.equal(streams.size, 2)
  const events: ParsedEvent[] = []
  const parser = new EventParser((event) => events.push(event))
  const reader = paused.getReader()
  while (events.length < 199) parser.push((await reader.read()).value!)
  for (let id = 200; id < 400; id++) feed.tell({ id, type: 'x', data: 'y'.repeat(1_000) })
  assert.equal(streams.size, 1)
  while (events.length < 399) parser.push((await reader.read()).value!)
  assert.deepEqual(
    events.map(({ id }) => Number(id)),
    Array.from({ length: 399 }, (_, nth) => nth + 1),
  )
  // What had been written before it was given up is there, and why it was.
  const left = Buffer.from(await new Response(abandoned).arrayBuffer()).toString()
  assert.ok(left.length < 70_000)
  assert.match(left, /event: error\ndata: {"code":"too_many"/)
})
