/**
 * Bursts of many keys on a queue and on a naive one beside it, each call answered alike. The walk of `walk.ts` knows
 * more operations and has five keys; here there are thousands.
 */
import assert from 'node:assert/strict'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, type DelayingQueueOptions, type Work } from 'signalbox/workqueue'
import { quiet } from '../probes.ts'

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
  readonly inFlight = new Set<number>()
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
        this.inFlight.add(id)
        return { id, item, priority }
      }
    }
    return undefined
  }

  done(id: number): boolean {
    if (!this.inFlight.delete(id)) return false
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
    if (this.inFlight.has(id)) this.again.set(id, { item, priority })
    else this.#push(id, { item, priority })
    return true
  }

  #push(id: number, pending: Pending): void {
    this.queued.set(id, pending)
    this.#levels[pending.priority]!.add(id)
  }
}

/**
 * What the items are; names and numbers may rest, objects may not. Mixed items have keys of every kind, odd ones are
 * their own keys, each easily taken for another.
 */
export type Kind = 'names' | 'keyed' | 'objects' | 'mixed' | 'odd'

/** Which bursts. */
export interface Bursts {
  readonly kind: Kind
  readonly coalesce: boolean
  /** From which round on there are priorities. @default 0 */
  readonly rankedFrom?: number
  readonly seed: number
  /** @default 25 */
  readonly rounds?: number
  /** How many come in one burst, one of these. */
  readonly sizes?: readonly number[]
  /** @default a DelayingQueue */
  readonly create?: (options: DelayingQueueOptions<unknown>) => DelayingQueue<unknown>
}

/** The queue and the naive one beside it; each call is made on both and must be answered alike. */
class Beside {
  readonly naive: Naive
  readonly #kind: Kind
  readonly #clock = createFakeClock()
  readonly #queue: DelayingQueue<unknown>
  readonly #objects = new Map<number, object>()
  /** By key: the first id that had it, where several may. */
  readonly #firstIds = new Map<unknown, number>()
  /** By id: the last work there was. */
  readonly #works = new Map<number, Work<unknown>>()
  #version = 0

  constructor({ kind, coalesce, create = (options) => new DelayingQueue(options) }: Bursts) {
    this.#kind = kind
    this.naive = new Naive(coalesce)
    const idOf = (item: unknown): number => (item as { id: number }).id
    const keys = {
      names: undefined,
      keyed: (id: number) => id,
      objects: undefined,
      odd: undefined,
      mixed: (id: number) => this.#mixedKey(id),
    }
    const key = keys[kind]
    this.#queue = create({
      clock: this.#clock,
      coalesce,
      ...(key && { key: (item) => key(idOf(item)) }),
    })
  }

  add(anId: number, priority: number): void {
    const id = this.#same(anId)
    const item = this.#item(id)
    assert.equal(this.#queue.add(item, { priority }), this.naive.add(id, item, priority), 'add')
  }

  addAfter(anId: number, ms: number, priority: number, replace: boolean): void {
    const id = this.#same(anId)
    const item = this.#item(id)
    const fresh = this.#queue.addAfter(item, ms, { priority, replace })
    assert.equal(fresh, this.naive.addAfter(id, item, ms, priority, replace), 'addAfter')
  }

  cancelAfter(anId: number): void {
    const id = this.#same(anId)
    assert.equal(this.#queue.cancelAfter(this.#item(id)), this.naive.waiting.delete(id), 'cancelAfter')
  }

  readyAt(anId: number): void {
    const id = this.#same(anId)
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

  done(anId: number): void {
    const id = this.#same(anId)
    assert.equal(this.#queue.done(this.#item(id)), this.naive.done(id), 'done')
  }

  /** Disposes of an id's last work, whose turn may be over. */
  dispose(anId: number): void {
    const id = this.#same(anId)
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
    assert.deepEqual(
      [size, processing, waiting],
      [naive.queued.size, naive.inFlight.size, naive.waiting.size],
    )
    assert.equal(this.#queue.stats().depth, naive.queued.size + naive.again.size)
    for (const id of naive.waiting.keys()) this.readyAt(id)
    for (const id of naive.inFlight) this.readyAt(id)
  }

  /** The id that stands for all ids with the same key. */
  #same(id: number): number {
    if (this.#kind !== 'odd') return id
    const key = this.#item(id)
    const first = this.#firstIds.get(key) ?? id
    this.#firstIds.set(key, first)
    return first
  }

  #item(id: number): unknown {
    if (this.#kind === 'names') return `name ${id}`
    if (this.#kind === 'odd') return this.#odd(id)
    if (this.#kind !== 'objects') return { id, version: ++this.#version }
    return this.#object(id)
  }

  /** Equal objects are created each time, where possible. */
  #odd(id: number): unknown {
    const ways = [
      () => (id % 2 ? -id : id),
      () => String(id - 1),
      () => BigInt(id - 2),
      () => `${id - 3}n`,
      () => Symbol.for(`${id - 4}`),
      () => String(id - 5).padStart(32, '0'),
      () => String(id - 6).padStart(33, '0'),
      () => this.#object(id),
      () => '\0'.repeat(id % 64),
      () =>
        [Number.NaN, this.#version++ % 2 ? 0 : -0, undefined, null, true, '', 'undefined', 'null'][
          (id >> 4) % 8
        ],
    ]
    return ways[id % ways.length]!()
  }

  /** Most are short strings, equal ones created each time. */
  #mixedKey(id: number): unknown {
    if (id === 1) return Number.NaN
    if (id === 2) return this.#version % 2 ? 0 : -0
    if (id === 3) return undefined
    if (id === 4) return ''
    if (id % 8 === 5) return this.#object(id)
    if (id % 8 === 6) return id
    if (id % 8 === 7) return `a name too long for a table of short ones ${id}`
    return id % 8 === 0 ? `名 ${id}` : `name ${id}`
  }

  #object(id: number): object {
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

/** Bursts of fresh ids and some that come back, each shrinking to a handful in flight and waiting. */
export async function walkBursts(bursts: Bursts): Promise<void> {
  const { rankedFrom = 0, rounds = 25, sizes = [70, 500, 1_500, 3_000] } = bursts
  const random = randomFrom(bursts.seed)
  const below = (end: number): number => Math.floor(random() * end)
  const isOneIn = (count: number): boolean => below(count) === 0
  const oneOf = <V>(...values: readonly V[]): V => values[below(values.length)]!
  const both = new Beside(bursts)
  const { naive } = both
  const most = Math.max(...sizes)
  let lastId = 0
  let round = 0
  const idNear = (distance: number): number => Math.max(0, lastId - below(distance))
  const priority = (): number => (round >= rankedFrom && isOneIn(8) ? 1 : 0)
  const addSomehow = (id: number): void => {
    if (isOneIn(3))
      both.addAfter(id, oneOf(1, 2, 2, 9, 1e6, Number.POSITIVE_INFINITY), priority(), isOneIn(4))
    else both.add(id, priority())
  }

  for (; round < rounds; round++) {
    for (let left = oneOf(...sizes); left > 0; left--) {
      addSomehow(isOneIn(5) ? idNear(most) : ++lastId)
    }
    if (isOneIn(2)) await quiet()
    both.advance(oneOf(0, 2, 9))

    // Most are worked off at once; a few stay in flight, of these a few are added again.
    for (let id = both.take(); id !== undefined; id = both.take()) {
      if (isOneIn(20)) addSomehow(id)
      if (isOneIn(40)) continue
      if (isOneIn(2)) both.done(id)
      else both.dispose(id)
      if (isOneIn(200)) both.compare()
    }
    for (const id of [...naive.waiting.keys()]) if (!isOneIn(30)) both.cancelAfter(id)
    for (const id of [...naive.inFlight]) if (!isOneIn(6)) both.done(id)
    both.compare()

    for (let left = 300; left > 0; left--) {
      const id = isOneIn(2) ? idNear(40) : idNear(most)
      const held = [...naive.inFlight].slice(0, 8)
      const inFlight = held.length > 0 ? held[below(held.length)]! : id
      oneOf(
        () => addSomehow(id),
        () => addSomehow(inFlight),
        () => both.cancelAfter(id),
        () => both.readyAt(id),
        () => both.done(id),
        () => both.dispose(inFlight),
        () => both.take(),
      )()
    }
    both.compare()

    // Now and then nothing is queued or in flight; something may wait.
    if (isOneIn(6)) {
      for (const id of [...naive.inFlight]) both.done(id)
      for (let id = both.take(); id !== undefined; id = both.take()) both.done(id)
      if (isOneIn(2)) for (const id of [...naive.waiting.keys()]) both.cancelAfter(id)
      await quiet()
      both.compare()
    }
  }
}
