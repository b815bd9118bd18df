import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { createNotifier } from '../../../core/notifier.ts'
import { cancelTopic, type JobsNotifier, type QueueStats, queueTopic } from '../../../jobs/index.ts'
import type { FeedEvent, FeedReader } from '../call.ts'
import { createQueuesFeed, type QueuesFeedOptions } from './queues-feed.ts'
import { createHintsFeed } from './watch-feeds.ts'

type StateEvent = FeedEvent & { readonly id?: number }

class FakeNotifier implements JobsNotifier {
  readonly listeners = new Map<string, Set<() => void>>()
  listen(topics: readonly string[], heard: () => void): () => void {
    const mine = () => heard()
    for (const topic of topics) {
      const others = this.listeners.get(topic) ?? new Set()
      this.listeners.set(topic, others.add(mine))
    }
    return () => {
      for (const topic of topics) this.listeners.get(topic)?.delete(mine)
    }
  }
  wake(topic: string): void {
    for (const heard of [...(this.listeners.get(topic) ?? [])]) heard()
  }
  countOf(topic: string): number {
    return this.listeners.get(topic)?.size ?? 0
  }
}

class FakeReader implements FeedReader {
  readonly events: StateEvent[] = []
  readonly failures: unknown[] = []
  readonly #came = createNotifier()
  send(event: FeedEvent): void {
    this.events.push(event as StateEvent)
    this.#came.wake()
  }
  fail(error: unknown): void {
    this.failures.push(error)
  }
  /** Waits until this many have come. */
  async until(count: number): Promise<readonly StateEvent[]> {
    while (this.events.length < count) await this.#came.wait({ timeoutMs: 10_000 })
    return this.events
  }
  get types(): readonly string[] {
    return this.events.map(({ type }) => type)
  }
}

function statsOf(queue: string, ready: number): QueueStats {
  const zero = { scheduled: 0, waiting: 0, running: 0, dead: 0, approximate: false }
  return { queue, paused: false, limits: null, ...zero, ready, oldestReadyAt: null }
}

/** A store whose numbers a test sets; it remembers when it was read. */
function aStage(options: QueuesFeedOptions = {}) {
  const notifier = new FakeNotifier()
  const store = {
    items: [statsOf('mail', 1)] as readonly QueueStats[],
    error: undefined as Error | undefined,
    readAt: [] as number[],
    async stats() {
      store.readAt.push(performance.now())
      if (store.error) throw store.error
      return store.items
    },
  }
  const feed = createQueuesFeed(store, notifier, { pollMs: 20, minGapMs: 5, ...options })
  const open = (lastEventId?: string | number) => {
    const reader = new FakeReader()
    const leave = feed.open(lastEventId === undefined ? undefined : String(lastEventId), reader)
    return Object.assign(reader, { leave })
  }
  return { notifier, store, feed, open }
}

const gapsOf = (instants: readonly number[]) => instants.slice(1).map((at, nth) => at - instants[nth]!)
const readyOf = ({ data }: FeedEvent) => (data as { items: QueueStats[] }).items.map(({ ready }) => ready)

test('a reader gets the present state first, and then only the changes', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  const reader = open()
  await reader.until(1)
  assert.equal(reader.events[0]!.type, 'queues')
  assert.deepEqual(reader.events[0]!.data, { items: [statsOf('mail', 1)] })
  const reads = store.readAt.length
  while (store.readAt.length < reads + 3) await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(reader.events.length, 1)
  // Another order is no change.
  store.items = [statsOf('mail', 2), statsOf('a', 0)]
  await reader.until(2)
  store.items = [statsOf('a', 0), statsOf('mail', 2)]
  const late = open()
  await late.until(1)
  assert.deepEqual(late.events, [reader.events[1]])
  store.items = [statsOf('mail', 3)]
  await Promise.all([reader.until(3), late.until(2)])
  assert.deepEqual(reader.events.map(readyOf), [[1], [0, 2], [3]])
  assert.equal(reader.events[2], late.events[1])
  assert.equal(reader.events[2]!.text, JSON.stringify(reader.events[2]!.data))
})

test('the store is read only while the feed has readers', async () => {
  const { store, feed, notifier, open } = aStage()
  await using _ = feed
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.equal(store.readAt.length, 0)
  const readers = [open(), open()]
  await Promise.all(readers.map((reader) => reader.until(1)))
  assert.equal(store.readAt.length, 1)
  assert.equal(notifier.countOf(queueTopic('mail')), 1)
  for (const reader of readers) reader.leave()
  assert.equal(notifier.countOf(queueTopic('mail')), 0)
  const count = store.readAt.length
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.equal(store.readAt.length, count)
  // A later reader waits for a new reading instead of getting the old state.
  store.items = [statsOf('mail', 9)]
  const late = open()
  assert.equal(late.events.length, 0)
  await late.until(1)
  assert.deepEqual(readyOf(late.events[0]!), [9])
})

test('a wake-up triggers the next reading earlier, but at least a second after the last', async () => {
  const clock = createFakeClock()
  const { store, feed, notifier, open } = aStage({ pollMs: 2_000, minGapMs: 1_000, clock })
  const readAt: number[] = []
  const { stats } = store
  store.stats = () => {
    readAt.push(clock.now())
    return stats()
  }
  const reader = open()
  await reader.until(1)
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      await new Promise((resolve) => setImmediate(resolve))
      clock.advance(100)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await pass(10_000)
  const alone = gapsOf(readAt.splice(0, readAt.length - 1))
  assert.equal(alone.length, 3)
  for (const gap of alone) assert.ok(gap >= 2_000 && gap <= 2_200, `${gap} ms`)
  for (let nth = 0; nth < 50; nth++) {
    notifier.wake(queueTopic('mail'))
    await pass(100)
  }
  const woken = gapsOf(readAt).slice(1)
  assert.ok(woken.length >= 3)
  for (const gap of woken) assert.ok(gap >= 1_000 && gap <= 1_200, `${gap} ms`)
  reader.leave()
  await feed[Symbol.asyncDispose]()
})

test('a disconnected reader continues from the last event, or learns that it must start again', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  const reader = open()
  for (const ready of [2, 3, 4]) {
    await reader.until(ready - 1)
    store.items = [statsOf('mail', ready)]
  }
  await reader.until(4)
  const ids = reader.events.map(({ id }) => id!)
  const upToDate = open(ids[3])
  for (const unknown of [ids[1]!, '0', 'nonsense', ids[0]! + 1, ids[0]! - 327_680]) {
    const anew = open(unknown)
    await anew.until(2)
    assert.deepEqual(anew.types, ['reset', 'queues'])
    assert.equal(anew.events[0]!.id, undefined)
    assert.deepEqual(anew.events[1], reader.events[3])
  }
  store.items = [statsOf('mail', 5)]
  await upToDate.until(1)
  assert.deepEqual(readyOf(upToDate.events[0]!), [5])
})

test('ids rise over a restart, and a reader from before it starts again', async () => {
  const before = aStage()
  const reader = before.open()
  await reader.until(1)
  await before.feed[Symbol.asyncDispose]()
  await new Promise((resolve) => setTimeout(resolve, 50))
  const after = aStage()
  await using _ = after.feed
  const again = after.open(reader.events[0]!.id)
  await again.until(2)
  assert.deepEqual(again.types, ['reset', 'queues'])
  assert.ok(again.events[1]!.id! > reader.events[0]!.id!)
})

test('an error of the store is reported once, and its end by the present state', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  const reader = open()
  await reader.until(1)
  store.error = new SignalboxError('store_unavailable', 'The store does not answer.')
  await reader.until(2)
  assert.deepEqual(reader.events[1], {
    type: 'error',
    data: { code: 'store_unavailable', message: 'The store does not answer.' },
  })
  const late = open()
  await late.until(1)
  const reads = store.readAt.length
  while (store.readAt.length === reads) await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(reader.events.length, 2)
  store.error = undefined
  await Promise.all([reader.until(3), late.until(2)])
  assert.deepEqual(reader.types, ['queues', 'error', 'queues'])
  assert.deepEqual(late.types, ['error', 'queues'])
  assert.ok(reader.events[2]!.id! > reader.events[0]!.id!)
})

test('an unexpected failure is not described to readers', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  store.error = new Error('password=hunter2')
  const reader = open()
  await reader.until(1)
  assert.equal((reader.events[0]!.data as { code: string }).code, 'internal')
  assert.doesNotMatch(JSON.stringify(reader.events), /hunter2/)
})

test('a store that never answers is reported, and the feed continues when it answers', async () => {
  const clock = createFakeClock()
  const hanging = Promise.withResolvers<readonly QueueStats[]>()
  let count = 0
  const stats = () => (++count === 1 ? hanging.promise : Promise.resolve([statsOf('mail', 5)]))
  const feed = createQueuesFeed({ stats }, new FakeNotifier(), { clock })
  const reader = new FakeReader()
  const leave = feed.open(undefined, reader)
  await new Promise((resolve) => setImmediate(resolve))
  clock.advance(15_000)
  await reader.until(2)
  assert.deepEqual(reader.types, ['error', 'queues'])
  // The answer of the one that was given up comes too late to count.
  hanging.resolve([statsOf('mail', 0)])
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(reader.events.length, 2)
  leave()
  await feed[Symbol.asyncDispose]()
})

test('more queues than one event can hold are an error event, not an unreadable stream', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  store.items = Array.from({ length: 10_000 }, (_, nth) => statsOf(`queue-${nth}`, nth))
  const reader = open()
  await reader.until(1)
  assert.equal((reader.events[0]!.data as { code: string }).code, 'too_large')
  store.items = [statsOf('mail', 1)]
  await reader.until(2)
  assert.deepEqual(reader.types, ['error', 'queues'])
})

test('thousands of readers get events in turns, each event once and in order', async () => {
  const { store, feed, open } = aStage()
  await using _ = feed
  const readers = Array.from({ length: 2_000 }, () => open())
  await Promise.all(readers.map((reader) => reader.until(1)))
  store.items = [statsOf('mail', 2)]
  await readers[0]!.until(2)
  // The others are still being told when these come.
  const late = Array.from({ length: 10 }, () => open())
  assert.ok(readers.at(-1)!.events.length === 1)
  await Promise.all(late.map((reader) => reader.until(1)))
  store.items = [statsOf('mail', 3)]
  await Promise.all([...readers.map((reader) => reader.until(3)), ...late.map((reader) => reader.until(2))])
  for (const reader of readers) assert.deepEqual(reader.events.map(readyOf), [[1], [2], [3]])
  for (const reader of late) assert.deepEqual(reader.events.map(readyOf), [[2], [3]])
})

test('a closed feed asks its readers to reconnect', async () => {
  const { feed, open } = aStage()
  await feed[Symbol.asyncDispose]()
  const reader = open()
  assert.equal((reader.failures[0] as SignalboxError).code, 'draining')
})

test('hints start with open, and then report the requested queues and cancellations', () => {
  const notifier = new FakeNotifier()
  const reader = new FakeReader()
  const leave = createHintsFeed(notifier, ['mail', 'a:b', 'mail']).open('7', reader)
  assert.deepEqual(reader.events, [{ type: 'open', data: {}, text: '{}' }])
  for (const topic of [queueTopic('mail'), queueTopic('other'), queueTopic('a:b'), cancelTopic])
    notifier.wake(topic)
  assert.deepEqual(
    reader.events.slice(1).map(({ id, type, text }: FeedEvent) => [id, type, text]),
    [
      [undefined, 'ready', '{"queue":"mail"}'],
      [undefined, 'ready', '{"queue":"a:b"}'],
      [undefined, 'cancel', '{}'],
    ],
  )
  leave()
  leave()
  notifier.wake(cancelTopic)
  assert.equal(reader.events.length, 4)
})

test('wake-ups of a queue within 50 ms cause one hint now and one after', async () => {
  const clock = createFakeClock()
  const notifier = new FakeNotifier()
  const reader = new FakeReader()
  const leave = createHintsFeed(notifier, ['mail', 'b'], { clock }).open(undefined, reader)
  const wake = () => notifier.wake(queueTopic('mail'))
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  for (let nth = 0; nth < 100; nth++) wake()
  notifier.wake(queueTopic('b'))
  assert.deepEqual(reader.types, ['open', 'ready', 'ready'])
  await settle()
  clock.advance(49)
  wake()
  assert.equal(reader.events.length, 3)
  clock.advance(1)
  assert.equal(reader.events.length, 4)
  await settle()
  clock.advance(50)
  // Nothing was woken since, so nothing is told; and the next wake-up is told at once.
  assert.equal(reader.events.length, 4)
  wake()
  assert.equal(reader.events.length, 5)
  await settle()
  leave()
  assert.equal(clock.timerCount, 0)
})

test('each topic of a notifier has one listener, however many readers there are', () => {
  const notifier = new FakeNotifier()
  const readers = Array.from({ length: 100 }, (_, nth) => {
    const reader = new FakeReader()
    const leave = createHintsFeed(notifier, ['mail', `own-${nth}`]).open(undefined, reader)
    return { reader, leave }
  })
  assert.equal(notifier.countOf(queueTopic('mail')), 1)
  assert.equal(notifier.countOf(cancelTopic), 1)
  notifier.wake(queueTopic('mail'))
  const [first] = readers.map(({ reader }) => reader.events[1])
  for (const { reader } of readers) assert.equal(reader.events[1], first)
  for (const { leave } of readers) leave()
  for (const [topic] of notifier.listeners) assert.equal(notifier.countOf(topic), 0)
})

test('hints of a closed notifier fail, and leave nothing behind', () => {
  const notifier = new FakeNotifier()
  const listen = notifier.listen.bind(notifier)
  notifier.listen = (topics, heard) => {
    if (topics.includes(cancelTopic)) throw new SignalboxError('closed', 'The store was closed.')
    return listen(topics, heard)
  }
  const reader = new FakeReader()
  createHintsFeed(notifier, ['mail']).open(undefined, reader)()
  assert.equal((reader.failures[0] as SignalboxError).code, 'closed')
  assert.equal(notifier.countOf(queueTopic('mail')), 0)
  assert.deepEqual(reader.events, [])
})
