/**
 * Thousands of keys at a time. Inside, every key has a seat, seats are numbered anew after a burst, and names that
 * left rest for a while; none of it may show. The walk of `walk.ts` has five keys and seldom gets there.
 */
import assert from 'node:assert/strict'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, type Work, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { quiet, take, takeAll } from './probes.ts'

interface Pending {
  item: unknown
  priority: number
}
interface Delayed extends Pending {
  dueAt: number
  order: number
}

/** A queue of ids in maps, quick enough for thousands; `model.ts` is plainer and knows more. */
class Naive {
  now = 0
  readonly queued = new Map<number, Pending>()
  readonly again = new Map<number, Pending>()
  readonly waiting = new Map<number, Delayed>()
  readonly hand = new Set<number>()
  /** The queued ids by priority, in the order in which they are served. */
  readonly #levels: Record<number, Set<number>> = { 1: new Set(), 0: new Set() }
  readonly #coalesce: boolean
  #lastOrder = 0

  constructor(coalesce: boolean) {
    this.#coalesce = coalesce
  }

  add(id: number, item: unknown, priority: number): boolean {
    const delayed = this.waiting.get(id)
    if (delayed && this.#coalesce) {
      this.waiting.delete(id)
      return this.#enter(id, item, Math.max(priority, delayed.priority))
    }
    if (delayed) delayed.item = item
    return this.#enter(id, item, priority)
  }

  addAfter(id: number, item: unknown, ms: number, priority: number, replace: boolean): boolean {
    const isPending = this.queued.has(id) || this.again.has(id)
    if (this.#coalesce && isPending) return this.#enter(id, item, priority)
    const dueAt = this.now + ms
    const known = this.waiting.get(id)
    if (!known) {
      this.waiting.set(id, { item, priority, dueAt, order: ++this.#lastOrder })
      return true
    }
    known.item = item
    known.priority = Math.max(known.priority, priority)
    if (replace || dueAt < known.dueAt) Object.assign(known, { dueAt, order: ++this.#lastOrder })
    return false
  }

  advance(ms: number): void {
    this.now += ms
    const due = [...this.waiting].filter(([, { dueAt }]) => dueAt <= this.now)
    due.sort(([, a], [, b]) => a.dueAt - b.dueAt || a.order - b.order)
    for (const [id, { item, priority }] of due) {
      this.waiting.delete(id)
      this.#enter(id, item, priority)
    }
  }

  take(): { id: number; item: unknown; priority: number } | undefined {
    for (const priority of [1, 0]) {
      for (const id of this.#levels[priority]!) {
        const { item } = this.queued.get(id)!
        this.#levels[priority]!.delete(id)
        this.queued.delete(id)
        this.hand.add(id)
        return { id, item, priority }
      }
    }
    return undefined
  }

  done(id: number): boolean {
    if (!this.hand.delete(id)) return false
    const again = this.again.get(id)
    if (again) {
      this.again.delete(id)
      this.#push(id, again)
    }
    return true
  }

  #enter(id: number, item: unknown, priority: number): boolean {
    const known = this.queued.get(id) ?? this.again.get(id)
    if (known) {
      known.item = item
      if (priority <= known.priority) return false
      known.priority = priority
      if (this.#levels[0]!.delete(id)) this.#levels[priority]!.add(id)
      return false
    }
    if (this.hand.has(id)) this.again.set(id, { item, priority })
    else this.#push(id, { item, priority })
    return true
  }

  #push(id: number, pending: Pending): void {
    this.queued.set(id, pending)
    this.#levels[pending.priority]!.add(id)
  }
}

/** What the items are; names and numbers may rest, objects may not. */
type Kind = 'names' | 'keyed' | 'objects'

/** The queue and the naive one beside it; each call is made on both and must be answered alike. */
class Beside {
  readonly naive: Naive
  readonly #kind: Kind
  readonly #clock = createFakeClock()
  readonly #queue: DelayingQueue<unknown>
  readonly #objects = new Map<number, object>()
  /** By id: the last work there was. */
  readonly #works = new Map<number, Work<unknown>>()
  #version = 0

  constructor(kind: Kind, coalesce: boolean) {
    this.#kind = kind
    this.naive = new Naive(coalesce)
    const key = (item: unknown): unknown => (item as { id: number }).id
    this.#queue = new DelayingQueue({ clock: this.#clock, coalesce, ...(kind === 'keyed' && { key }) })
  }

  add(id: number, priority: number): void {
    const item = this.#item(id)
    assert.equal(this.#queue.add(item, { priority }), this.naive.add(id, item, priority), 'add')
  }

  addAfter(id: number, ms: number, priority: number, replace: boolean): void {
    const item = this.#item(id)
    const fresh = this.#queue.addAfter(item, ms, { priority, replace })
    assert.equal(fresh, this.naive.addAfter(id, item, ms, priority, replace), 'addAfter')
  }

  cancelAfter(id: number): void {
    assert.equal(this.#queue.cancelAfter(this.#item(id)), this.naive.waiting.delete(id), 'cancelAfter')
  }

  readyAt(id: number): void {
    assert.equal(this.#queue.readyAt(this.#item(id)), this.naive.waiting.get(id)?.dueAt, 'readyAt')
  }

  take(): number | undefined {
    const expected = this.naive.take()
    const work = this.#queue.tryGet()
    assert.equal(work === undefined, expected === undefined, 'whether there is one')
    if (work === undefined || expected === undefined || work.shutdown) return undefined
    assert.equal(work.item, expected.item, 'who is next')
    assert.equal(work.priority, expected.priority)
    this.#works.set(expected.id, work)
    return expected.id
  }

  done(id: number): void {
    assert.equal(this.#queue.done(this.#item(id)), this.naive.done(id), 'done')
  }

  /** Disposes of an id's last work, whose turn may be over. */
  dispose(id: number): void {
    this.#works.get(id)?.[Symbol.dispose]()
    this.naive.done(id)
  }

  advance(ms: number): void {
    this.#clock.advance(ms)
    this.naive.advance(ms)
  }

  /** Compares all that can be seen without changing it. */
  compare(): void {
    const { size, processing, waiting } = this.#queue
    const { naive } = this
    assert.deepEqual([size, processing, waiting], [naive.queued.size, naive.hand.size, naive.waiting.size])
    assert.equal(this.#queue.stats().depth, naive.queued.size + naive.again.size)
    for (const id of naive.waiting.keys()) this.readyAt(id)
    for (const id of naive.hand) this.readyAt(id)
  }

  #item(id: number): unknown {
    if (this.#kind === 'names') return `name ${id}`
    if (this.#kind === 'keyed') return { id, version: ++this.#version }
    const known = this.#objects.get(id) ?? { id }
    this.#objects.set(id, known)
    return known
  }
}

/** Numbers from 0 up to 1, the same for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Bursts of fresh ids and some that come back, each shrinking to a handful in hand and waiting. */
async function walkBursts(kind: Kind, coalesce: boolean, seed: number): Promise<void> {
  const random = randomFrom(seed)
  const below = (end: number): number => Math.floor(random() * end)
  const isOneIn = (count: number): boolean => below(count) === 0
  const oneOf = <V>(...values: readonly V[]): V => values[below(values.length)]!
  const both = new Beside(kind, coalesce)
  const { naive } = both
  let lastId = 0
  const idNear = (distance: number): number => Math.max(0, lastId - below(distance))
  const priority = (): number => (isOneIn(8) ? 1 : 0)
  const addSomehow = (id: number): void => {
    if (isOneIn(3))
      both.addAfter(id, oneOf(1, 2, 2, 9, 1e6, Number.POSITIVE_INFINITY), priority(), isOneIn(4))
    else both.add(id, priority())
  }

  for (let round = 0; round < 25; round++) {
    for (let left = oneOf(70, 500, 1_500, 3_000); left > 0; left--) {
      addSomehow(isOneIn(5) ? idNear(4_000) : ++lastId)
    }
    if (isOneIn(2)) await quiet()
    both.advance(oneOf(0, 2, 9))

    // Most are worked off at once; a few stay in hand, of these a few are added again.
    for (let id = both.take(); id !== undefined; id = both.take()) {
      if (isOneIn(20)) addSomehow(id)
      if (isOneIn(40)) continue
      if (isOneIn(2)) both.done(id)
      else both.dispose(id)
      if (isOneIn(200)) both.compare()
    }
    for (const id of [...naive.waiting.keys()]) if (!isOneIn(30)) both.cancelAfter(id)
    for (const id of [...naive.hand]) if (!isOneIn(6)) both.done(id)
    both.compare()

    for (let left = 300; left > 0; left--) {
      const id = isOneIn(2) ? idNear(40) : idNear(4_000)
      const held = [...naive.hand].slice(0, 8)
      const inHand = held.length > 0 ? held[below(held.length)]! : id
      oneOf(
        () => addSomehow(id),
        () => addSomehow(inHand),
        () => both.cancelAfter(id),
        () => both.readyAt(id),
        () => both.done(id),
        () => both.dispose(inHand),
        () => both.take(),
      )()
    }
    both.compare()

    // Now and then nothing is queued or in hand; something may wait.
    if (isOneIn(6)) {
      for (const id of [...naive.hand]) both.done(id)
      for (let id = both.take(); id !== undefined; id = both.take()) both.done(id)
      if (isOneIn(2)) for (const id of [...naive.waiting.keys()]) both.cancelAfter(id)
      await quiet()
      both.compare()
    }
  }
}

for (const kind of ['names', 'keyed', 'objects'] as const) {
  for (const coalesce of [false, true]) {
    const how = coalesce ? `${kind}, coalescing` : kind
    test(`bursts of thousands that shrink to a handful agree with a naive queue: ${how}`, async () => {
      await walkBursts(kind, coalesce, 1)
    })
  }
}

test('W1: a busy name stays in one hand while tens of thousands of others come and go', () => {
  const queue = new WorkQueue<string>()
  const inHand = new Set<string>()
  // An odd number, so that they leave at any time: one leaving name in sixteen rests.
  const busy = Array.from({ length: 101 }, (_, at) => `busy ${at}`)
  for (let other = 0; other < 40_000; other++) {
    // Each is in hand for a while, idle for a while, and so on.
    const name = busy[other % busy.length]!
    const wasInHand = inHand.delete(name)
    assert.equal(queue.done(name), wasInHand)
    if (!wasInHand) {
      queue.add(name)
      assert.equal(take(queue).item, name)
      inHand.add(name)
    }
    assert.equal(queue.add(`other ${other}`), true)
    assert.equal(take(queue).item, `other ${other}`)
    assert.equal(queue.done(`other ${other}`), true)
    assert.equal(queue.processing, inHand.size)
  }
})

function collect(): void {
  assert.ok(globalThis.gc, 'run with --expose-gc')
  globalThis.gc()
}

/** Once it falls no further: the memory of typed arrays is given back in the background. */
async function heldBytes(): Promise<number> {
  let held = Number.POSITIVE_INFINITY
  for (let round = 0; round < 10; round++) {
    await quiet()
    collect()
    const { heapUsed, external } = process.memoryUsage()
    if (round > 1 && heapUsed + external >= held) break
    held = heapUsed + external
  }
  return held
}

test('W7: what a burst needed is given back also while a handful is still in hand', async () => {
  const queue = new WorkQueue<number>()
  const before = await heldBytes()
  for (let id = 0; id < 150_000; id++) queue.add(id)
  const held = Array.from({ length: 5 }, () => take(queue).item)
  takeAll(queue)
  const kept = (await heldBytes()) - before
  assert.ok(kept < 500_000, `${kept} bytes kept`)
  for (const each of held) assert.equal(queue.done(each), true)
})

test('W7: objects that are done are let go of at once, also while others are in hand or waiting', async () => {
  for (const key of [undefined, (item: object) => item]) {
    const queue = new DelayingQueue<object>({ clock: createFakeClock(), ...(key && { key }) })
    const held = { held: true }
    queue.add(held)
    take(queue)
    queue.addAfter({ waiting: true }, 10)
    const refs = Array.from({ length: 500 }, (_, at) => {
      const item = { at }
      queue.add(item)
      queue.done(take(queue).item)
      return new WeakRef(item)
    })
    await heldBytes()
    assert.equal(refs.filter((ref) => ref.deref() !== undefined).length, 0)
    assert.deepEqual([queue.done(held), queue.waiting], [true, 1])
  }
})

test('W7: names that came once are forgotten also while another is in hand', async () => {
  const queue = new WorkQueue<string>()
  queue.add('held')
  take(queue)
  const tail = 'x'.repeat(200)
  const pass = (from: number): void => {
    for (let id = from; id < from + 100_000; id++) {
      queue.add(`${id} ${tail}`)
      queue.done(take(queue).item)
    }
  }
  pass(0)
  const before = await heldBytes()
  pass(100_000)
  const kept = (await heldBytes()) - before
  assert.ok(kept < 500_000, `${kept} bytes more`)
  assert.equal(queue.done('held'), true)
})
