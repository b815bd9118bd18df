/**
 * Contract, "Delays": due items enter in due order, equal times in the order of the calls that set them. Here thousands
 * fall due at one firing, while hooks, which are foreign code, call the queue in between. An item that has not entered yet
 * is still waiting then, and every call on it counts.
 */
import assert from 'node:assert/strict'
import { DelayingQueue, type DelayingQueueOptions, FifoQueue } from 'signalbox/workqueue'
import { test, vi } from 'vitest'
import { HandClock, takeAll } from './probes.ts'

/** What the walk does to a queue, and to the naive one beside it. */
interface Delays {
  readonly waiting: number
  add(id: number): boolean
  addAfter(id: number, ms: number, replace: boolean): boolean
  cancelAfter(id: number): boolean
  readyAt(id: number): number | undefined
  /** Takes the next and ends its turn. */
  takeNext(): number | undefined
  shutDown(): void
  jump(ms: number): void
  /** Fires the timer. */
  fire(): void
}

/** A list that is searched for the next item. */
class NaiveDelays implements Delays {
  readonly #onAdd: () => void
  readonly #waiting = new Map<number, { dueAt: number; order: number }>()
  readonly #queued = new Set<number>()
  #now = 0
  #lastOrder = 0
  #isShut = false

  constructor(onAdd: () => void) {
    this.#onAdd = onAdd
  }

  get waiting(): number {
    return this.#waiting.size
  }

  add(id: number): boolean {
    if (this.#isShut || this.#queued.has(id)) return false
    this.#queued.add(id)
    this.#onAdd()
    return true
  }

  addAfter(id: number, ms: number, replace: boolean): boolean {
    if (this.#isShut) return false
    const known = this.#waiting.get(id)
    const dueAt = this.#now + ms
    if (known === undefined || replace || dueAt < known.dueAt)
      this.#waiting.set(id, { dueAt, order: ++this.#lastOrder })
    return known === undefined
  }

  cancelAfter(id: number): boolean {
    return this.#waiting.delete(id)
  }

  readyAt(id: number): number | undefined {
    return this.#waiting.get(id)?.dueAt
  }

  takeNext(): number | undefined {
    const [id] = this.#queued
    if (id !== undefined) this.#queued.delete(id)
    return id
  }

  shutDown(): void {
    this.#isShut = true
    this.#waiting.clear()
  }

  jump(ms: number): void {
    this.#now += ms
  }

  fire(): void {
    const now = this.#now
    for (let id = this.#nextDue(now); id !== undefined; id = this.#nextDue(now)) {
      this.#waiting.delete(id)
      this.add(id)
    }
  }

  #nextDue(now: number): number | undefined {
    let nextId: number | undefined
    let next = { dueAt: now, order: Number.POSITIVE_INFINITY }
    for (const [id, timer] of this.#waiting) {
      if (timer.dueAt > next.dueAt || (timer.dueAt === next.dueAt && timer.order > next.order)) continue
      nextId = id
      next = timer
    }
    return nextId
  }
}

const modes = ['names', 'objects', 'keyed'] as const

/** A queue seen as `Delays`; its hook is that of a counter of adds. */
function queueOf(mode: (typeof modes)[number], onAdd: () => void): Delays {
  const clock = new HandClock()
  const key = mode === 'keyed' ? { key: (item: unknown) => (item as { id: number }).id } : {}
  const options: DelayingQueueOptions<unknown> = { clock, metrics: { adds: { inc: onAdd } }, ...key }
  const queue = new DelayingQueue<unknown>(options)
  const items = new Map<number, unknown>()
  const itemOf = (id: number): unknown => {
    if (mode === 'names') return `name-${id}`
    if (mode === 'keyed') return { id }
    if (!items.has(id)) items.set(id, { id })
    return items.get(id)
  }
  return {
    get waiting() {
      return queue.waiting
    },
    add: (id) => queue.add(itemOf(id)),
    addAfter: (id, ms, replace) => queue.addAfter(itemOf(id), ms, { replace }),
    cancelAfter: (id) => queue.cancelAfter(itemOf(id)),
    readyAt: (id) => queue.readyAt(itemOf(id)),
    takeNext() {
      const work = queue.tryGet()
      if (work === undefined || work.shutdown) return undefined
      const { item } = work
      assert.ok(queue.done(item))
      return typeof item === 'string' ? Number(item.slice(5)) : (item as { id: number }).id
    },
    shutDown: () => queue.shutDown(),
    jump(ms) {
      clock.time += ms
    },
    fire: () => clock.fire(),
  }
}

const times = {
  even: (random) => 1 + random() * 1_000,
  equal: () => 500,
  clustered: (random) => 1 + Math.floor(random() * 12),
  skewed: (random) => 2 ** -Math.floor(random() * 60) * 900,
  'half of them late': (random) => 1 + random() * 2_000,
} satisfies Record<string, (random: () => number) => number>

const count = 1_500

/** What is seen on a walk: every answer, and everything in the order in which it was taken. */
function walk(
  create: (onAdd: () => void) => Delays,
  timeOf: (random: () => number) => number,
  seed: number,
): unknown[] {
  const random = drawFrom(seed)
  const seen: unknown[] = []
  let isInHook = true
  const anId = (): number => Math.floor(random() * count * 1.1)
  const delays: Delays = create(() => {
    if (isInHook) return
    isInHook = true
    if (random() < 0.3) act()
    isInHook = false
  })
  const takeAllNow = (): void => {
    for (let next = delays.takeNext(); next !== undefined; next = delays.takeNext()) seen.push(next)
  }
  const act = (): void => {
    const draw = random()
    const id = anId()
    if (draw < 0.2) seen.push('cancel', delays.cancelAfter(id))
    else if (draw < 0.4) seen.push('after', delays.addAfter(id, 1 + random() * 1_000, random() < 0.5))
    else if (draw < 0.5) seen.push('absorbed', delays.addAfter(id, Number.MIN_VALUE, true))
    else if (draw < 0.6) seen.push('add', delays.add(id))
    else if (draw < 0.7) {
      // A clock that steps back in the midst of it: what is set now may come before what is due already.
      delays.jump(-700)
      seen.push('back', delays.addAfter(id, random() * 500 + 1, true))
      delays.jump(700)
    } else if (draw < 0.8) takeAllNow()
    else if (draw < 0.801 && seed % 3 === 0) delays.shutDown()
    else seen.push('at', delays.readyAt(id), delays.waiting)
  }
  for (let id = 0; id < count; id++) delays.addAfter(id, timeOf(random), false)
  for (let at = 0; at < count / 10; at++) delays.addAfter(anId(), timeOf(random), at % 2 === 0)
  isInHook = false
  for (let firing = 0; firing < 4 && delays.waiting > 0; firing++) {
    delays.jump(1_000)
    delays.fire()
    seen.push('fired', delays.waiting)
  }
  for (let id = 0; id < count * 1.1; id++) seen.push(delays.readyAt(id))
  isInHook = true
  takeAllNow()
  return seen
}

function drawFrom(seed: number): () => number {
  let state = seed * 7_919 + 1
  return () => {
    state = (state * 16_807) % 2_147_483_647
    return state / 2_147_483_647
  }
}

for (const mode of modes) {
  for (const [name, timeOf] of Object.entries(times)) {
    test(`thousands of items due at once enter in order while hooks call the queue: ${mode}, ${name}`, () => {
      for (let seed = 1; seed <= 6; seed++) {
        const actual = walk((onAdd) => queueOf(mode, onAdd), timeOf, seed)
        const expected = walk((onAdd) => new NaiveDelays(onAdd), timeOf, seed)
        assert.deepEqual(actual, expected)
      }
    })
  }
}

test('of thousands due at once, items that a store refuses wait again, and the rest enters in order', () => {
  const clock = new HandClock()
  class Picky extends FifoQueue<number> {
    refuses = true
    override push(entry: { item: number; priority: number }): void {
      if (this.refuses && entry.item % 10 === 0) throw new Error('not this one')
      super.push(entry)
    }
  }
  const store = new Picky()
  const queue = new DelayingQueue<number>({ clock, queue: store })
  for (let item = 0; item < 2_000; item++) queue.addAfter(item, 1 + ((item * 7) % 500))
  const complaints = vi.spyOn(console, 'error').mockImplementation(() => {})
  clock.time = 1_000
  clock.fire()
  assert.equal(complaints.mock.calls.length, 200)
  complaints.mockRestore()
  assert.deepEqual([queue.size, queue.waiting, queue.readyAt(10)], [1_800, 200, 11_000])
  store.refuses = false
  clock.time = 11_000
  clock.fire()
  const dueOrder = (a: number, b: number): number => ((a * 7) % 500) - ((b * 7) % 500) || a - b
  const all = Array.from({ length: 2_000 }, (_, item) => item).sort(dueOrder)
  assert.deepEqual(takeAll(queue), [
    ...all.filter((item) => item % 10 !== 0),
    ...all.filter((item) => item % 10 === 0),
  ])
})

test('a firing within a firing takes the remaining items, each once', () => {
  const clock = new HandClock()
  let adds = 0
  const onAdd = (): void => {
    if (++adds !== 100 && adds !== 1_000) return
    queue.addAfter(`late-${adds}`, 5)
    clock.time += 10
    clock.fire()
  }
  const queue: DelayingQueue<string> = new DelayingQueue({ clock, metrics: { adds: { inc: onAdd } } })
  const expected: string[] = []
  for (let id = 0; id < 3_000; id++) {
    queue.addAfter(`${id}`, 1)
    expected.push(`${id}`)
  }
  clock.time = 100
  clock.fire()
  assert.deepEqual([queue.size, queue.waiting, clock.armed.length], [3_002, 0, 0])
  assert.deepEqual(takeAll(queue), [...expected, 'late-100', 'late-1000'])
})

test('when all due items are cancelled during a firing, no more enter and no timer is left', () => {
  const clock = new HandClock()
  let adds = 0
  const onAdd = (): void => {
    if (++adds === 500) for (let id = 0; id < 3_000; id++) queue.cancelAfter(id)
  }
  const queue: DelayingQueue<number> = new DelayingQueue({ clock, metrics: { adds: { inc: onAdd } } })
  for (let id = 0; id < 3_000; id++) queue.addAfter(id, 1 + (id % 7))
  clock.time = 100
  clock.fire()
  assert.deepEqual([queue.size, queue.waiting, clock.armed.length], [500, 0, 0])
})
