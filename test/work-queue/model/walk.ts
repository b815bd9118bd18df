/**
 * A random walk over every operation of the queue and of the naive model beside it: after each step every
 * answer, count, outcome, store call and measure must agree. fast-check draws the steps and shrinks a
 * difference to the shortest walk that shows it; its message has the seed and the path to replay it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createFakeClock } from 'signalbox/testing'
import {
  FairQueue,
  FifoQueue,
  ItemExponentialFailureRateLimiter,
  type NoWork,
  RateLimitingQueue,
  type Work,
} from 'signalbox/workqueue'
import { quiet, TapeStore } from '../probes.ts'
import { Model, type Outcome, type Thing } from './model.ts'

/** How long and from where to walk. */
export interface WalkOptions {
  /** How many walks. */
  readonly runs: number
  /** Draws the same walks again. @default a seed of the moment */
  readonly seed?: number
  /** Replays one walk of the seed, as a failure's message names it. */
  readonly path?: string
  /** The longest walk. @default 100 */
  readonly steps?: number
}

interface Setting {
  readonly store: 'fifo' | 'fair'
  readonly keyed: boolean
  readonly coalesce: boolean
  readonly metrics: 'none' | 'empty' | 'all'
  readonly traced: boolean
  readonly baseDelay: number
}

type Step =
  | { readonly op: 'add'; readonly id: string; readonly priority: number | undefined }
  | {
      readonly op: 'addAfter'
      readonly id: string
      readonly ms: number
      readonly priority: number | undefined
      readonly replace: boolean
    }
  | { readonly op: 'addRateLimited'; readonly id: string; readonly priority: number | undefined }
  | { readonly op: 'forget' | 'cancelAfter' | 'done'; readonly id: string }
  | { readonly op: 'get' | 'drain' | 'onIdle'; readonly signal: 'none' | 'later' | 'aborted' }
  | { readonly op: 'onSizeLessThan'; readonly limit: number; readonly signal: 'none' | 'later' | 'aborted' }
  | { readonly op: 'abort' | 'dispose' | 'next' | 'leave'; readonly index: number }
  | { readonly op: 'advance'; readonly ms: number }
  | { readonly op: 'tryGet' | 'shutDown' }

const IDS = ['a1', 'a2', 'b1', 'b2', 'c1'] as const
const NAME = 'walk'
const MAX_DELAY = 40

const anId = fc.constantFrom(...IDS)
const aPriority = fc.option(fc.constantFrom(-1, 0, 1, 2.5), { nil: undefined })
const aSignal = fc.constantFrom('none', 'none', 'later', 'later', 'aborted')
const anIndex = fc.nat(1_000)
const aStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ op: fc.constant('add'), id: anId, priority: aPriority }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant('addAfter'),
      id: anId,
      ms: fc.constantFrom(-1, 0, 0.5, 1, 2, 3, 5, 10, 12_000, 2 ** 31 + 5, Number.POSITIVE_INFINITY),
      priority: aPriority,
      replace: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('addRateLimited'), id: anId, priority: aPriority }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('forget'), id: anId }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('cancelAfter'), id: anId }) },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('done'), id: anId }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('get'), signal: aSignal }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('tryGet') }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('dispose'), index: anIndex }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('abort'), index: anIndex }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('next'), index: anIndex }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('leave'), index: anIndex }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('onIdle'), signal: aSignal }) },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('onSizeLessThan'),
      limit: fc.integer({ min: 1, max: 3 }),
      signal: aSignal,
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      op: fc.constant('advance'),
      ms: fc.constantFrom(0, 0.5, 1, 1, 2, 3, 5, 10, 100, 13_000),
    }),
  },
)
/** Shutting down ends most of what can happen, so it comes late if at all. */
const anEnd: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ op: fc.constant('shutDown') }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('drain'), signal: aSignal }) },
  { weight: 6, arbitrary: aStep },
)
const aSetting: fc.Arbitrary<Setting> = fc.record({
  store: fc.constantFrom('fifo', 'fair'),
  keyed: fc.boolean(),
  coalesce: fc.boolean(),
  metrics: fc.constantFrom('none', 'empty', 'all'),
  traced: fc.boolean(),
  baseDelay: fc.constantFrom(0, 5),
})

const near = (values: readonly number[]): number[] => values.map((value) => Math.round(value * 1e6) / 1e6)

/** Walks `runs` times; answers how many operations were compared, throws at the first difference. */
export async function walk({ runs, seed, path, steps = 100 }: WalkOptions): Promise<{ operations: number }> {
  let operations = 0
  const property = fc.asyncProperty(
    aSetting,
    fc.array(aStep, { maxLength: steps, size: 'max' }),
    fc.array(anEnd, { maxLength: Math.ceil(steps / 3), size: 'max' }),
    async (setting, life, end) => {
      const pair = new Pair(setting)
      for (const step of [...life, ...end]) {
        operations++
        await pair.take(step)
      }
    },
  )
  await fc.assert(property, {
    numRuns: runs,
    ...(seed !== undefined && { seed }),
    ...(path !== undefined && { path }),
  })
  return { operations }
}

/** The queue and its model, side by side. */
class Pair {
  readonly #setting: Setting
  readonly #clock = createFakeClock()
  readonly #model: Model
  readonly #queue: RateLimitingQueue<Thing>
  readonly #tape: TapeStore<Thing> | undefined
  readonly #depthMoves: number[] = []
  readonly #latencies: number[] = []
  readonly #durations: number[] = []
  #addsSeen = 0
  #retriesSeen = 0
  #version = 0

  /** What became of each promise, by the number the model gave it. */
  readonly #outcomes: (Outcome | 'pending')[] = []
  readonly #controllers = new Map<number, AbortController>()
  /** The Works given by get and tryGet, with their turns' numbers in the model. */
  readonly #works: { work: Work<Thing>; turn: number }[] = []
  readonly #iterators: {
    iterator: AsyncIterator<Thing>
    turn: number | undefined
    promise: number | undefined
  }[] = []

  constructor(setting: Setting) {
    this.#setting = setting
    const { store, keyed, coalesce, metrics, traced, baseDelay } = setting
    this.#model = new Model({
      store,
      coalesce,
      timings: metrics !== 'none',
      baseDelay,
      maxDelay: MAX_DELAY,
    })
    const inner = store === 'fifo' ? new FifoQueue<Thing>() : new FairQueue<Thing>(({ group }) => group)
    this.#tape = traced ? new TapeStore<Thing>(inner) : undefined
    const all = {
      depth: { inc: () => void this.#depthMoves.push(1), dec: () => void this.#depthMoves.push(-1) },
      adds: { inc: () => void this.#addsSeen++ },
      retries: { inc: () => void this.#retriesSeen++ },
      latency: { observe: (seconds: number) => void this.#latencies.push(seconds) },
      workDuration: { observe: (seconds: number) => void this.#durations.push(seconds) },
    }
    this.#queue = new RateLimitingQueue<Thing>({
      name: NAME,
      clock: this.#clock,
      coalesce,
      rateLimiter: new ItemExponentialFailureRateLimiter<Thing>(baseDelay, MAX_DELAY),
      ...(store === 'fair' || traced ? { queue: this.#tape ?? inner } : {}),
      ...(keyed ? { key: ({ id }: Thing) => id } : {}),
      ...(metrics === 'none' ? {} : { metrics: metrics === 'all' ? all : {} }),
    })
  }

  /** Takes one step on both sides and compares all that can be seen. */
  async take(step: Step): Promise<void> {
    this.#step(step)
    // An iterator may end its turn a moment later; everything else has happened when it returns.
    if (step.op !== 'next' && step.op !== 'leave') this.#compare()
    await quiet()
    this.#compare()
    this.#compareOutcomes()
  }

  #step(step: Step): void {
    const queue = this.#queue
    const model = this.#model
    switch (step.op) {
      case 'add': {
        const thing = this.#thing(step.id)
        const options = step.priority === undefined ? undefined : { priority: step.priority }
        assert.equal(queue.add(thing, options), model.add(thing, step.priority ?? 0), 'add answers')
        return
      }
      case 'addAfter': {
        const thing = this.#thing(step.id)
        const { ms, priority } = step
        const options = { replace: step.replace, ...(priority === undefined ? {} : { priority }) }
        const expected = model.addAfter(thing, ms, priority ?? 0, step.replace)
        assert.equal(queue.addAfter(thing, ms, options), expected, 'addAfter answers')
        return
      }
      case 'addRateLimited': {
        const thing = this.#thing(step.id)
        const options = step.priority === undefined ? undefined : { priority: step.priority }
        const expected = model.addRateLimited(thing, step.priority ?? 0)
        assert.equal(queue.addRateLimited(thing, options), expected, 'addRateLimited answers')
        return
      }
      case 'forget':
        queue.forget(this.#thing(step.id))
        model.forget(step.id)
        return
      case 'cancelAfter':
        assert.equal(
          queue.cancelAfter(this.#thing(step.id)),
          model.cancelAfter(step.id),
          'cancelAfter answers',
        )
        return
      case 'done':
        assert.equal(queue.done(this.#thing(step.id)), model.done(step.id), 'done answers')
        return
      case 'tryGet': {
        const turn = model.turns.length
        const expected = model.tryGet()
        const work = queue.tryGet()
        assert.deepEqual(work && outcomeOf(work), expected, 'tryGet answers')
        if (work && !work.shutdown) this.#works.push({ work, turn })
        return
      }
      case 'get':
        this.#get(step.signal)
        return
      case 'drain':
        // An aborted signal on an idle queue is not decided by the contract.
        if (step.signal === 'aborted' && model.size + model.processing === 0) return
        this.#wait(
          step.signal,
          (options) => queue.shutDownWithDrain(options),
          (aborted) => model.drain(aborted),
        )
        return
      case 'onIdle':
        if (step.signal === 'aborted') return
        this.#wait(
          step.signal,
          (options) => queue.onIdle(options),
          () => model.onIdle(),
        )
        return
      case 'onSizeLessThan':
        if (step.signal === 'aborted') return
        this.#wait(
          step.signal,
          (options) => queue.onSizeLessThan(step.limit, options),
          () => model.onSizeLessThan(step.limit),
        )
        return
      case 'abort': {
        const promises = [...this.#controllers.keys()]
        const promise = promises[step.index % promises.length]
        if (promise === undefined) return
        this.#controllers.get(promise)!.abort('aborted')
        this.#controllers.delete(promise)
        model.abort(promise)
        return
      }
      case 'dispose': {
        const given = this.#works[step.index % this.#works.length]
        if (!given) return
        given.work[Symbol.dispose]()
        model.dispose(given.turn)
        return
      }
      case 'next':
        this.#next(step.index % 3)
        return
      case 'leave':
        this.#leave(step.index % 3)
        return
      case 'advance':
        this.#clock.advance(step.ms)
        model.advance(step.ms)
        return
      case 'shutDown':
        queue.shutDown()
        model.shutDown()
        return
    }
  }

  /** With a key function each add has a new payload; without one an id is always the same object. */
  #thing(id: string): Thing {
    if (this.#setting.keyed) return { id, group: id[0]!, version: ++this.#version }
    let thing = plain.get(id)
    if (!thing) {
      thing = { id, group: id[0]!, version: 0 }
      plain.set(id, thing)
    }
    return thing
  }

  #get(signal: 'none' | 'later' | 'aborted'): void {
    const controller = controllerOf(signal)
    const promise = this.#model.get(signal === 'aborted')
    if (controller && signal === 'later') this.#controllers.set(promise, controller)
    this.#outcomes[promise] = 'open'
    this.#queue.get(controller && { signal: controller.signal }).then(
      (work) => {
        this.#outcomes[promise] = outcomeOf(work)
        if (!work.shutdown) this.#works.push({ work, turn: this.#turnOf(work.item) })
      },
      () => {
        this.#outcomes[promise] = 'rejected'
      },
    )
  }

  /** The turn in which the model has handed out this thing last. */
  #turnOf(thing: Thing): number {
    return this.#model.turns.findLast((turn) => turn.thing.id === thing.id)?.number ?? -1
  }

  #wait(
    signal: 'none' | 'later' | 'aborted',
    real: (options: { signal?: AbortSignal }) => Promise<void>,
    expected: (aborted: boolean) => number,
  ): void {
    const controller = controllerOf(signal)
    const promise = expected(signal === 'aborted')
    if (controller && signal === 'later') this.#controllers.set(promise, controller)
    this.#outcomes[promise] = 'open'
    real(controller ? { signal: controller.signal } : {}).then(
      () => {
        this.#outcomes[promise] = 'resolved'
      },
      () => {
        this.#outcomes[promise] = 'rejected'
      },
    )
  }

  #next(index: number): void {
    this.#iterators[index] ??= {
      iterator: this.#queue[Symbol.asyncIterator](),
      turn: undefined,
      promise: undefined,
    }
    const each = this.#iterators[index]!
    if (each.promise !== undefined && this.#model.outcomes[each.promise] === 'open') return
    this.#endTurn(each)
    const promise = this.#model.get(false)
    each.promise = promise
    this.#outcomes[promise] = 'open'
    each.iterator.next().then(({ value, done }) => {
      if (done) {
        this.#outcomes[promise] = 'shutdown'
        // It is finished for good, even if an item in flight comes back to the queue.
        delete this.#iterators[index]
        return
      }
      each.turn = this.#turnOf(value)
      const expected = this.#model.outcomes[promise]
      // An iterator does not have the priority.
      const priority = typeof expected === 'object' ? expected.priority : 0
      this.#outcomes[promise] = { thing: value, priority }
    })
  }

  #leave(index: number): void {
    const each = this.#iterators[index]
    if (!each || (each.promise !== undefined && this.#model.outcomes[each.promise] === 'open')) return
    this.#endTurn(each)
    void each.iterator.return!()
    delete this.#iterators[index]
  }

  #endTurn(each: { turn: number | undefined }): void {
    if (each.turn !== undefined) this.#model.dispose(each.turn)
    each.turn = undefined
  }

  #compare(): void {
    const queue = this.#queue
    const model = this.#model
    const seen = [queue.size, queue.processing, queue.waiting, queue.shuttingDown]
    assert.deepEqual(seen, [model.size, model.processing, model.waiting, model.shuttingDown], 'the counts')
    assert.deepEqual({ ...queue.stats() }, model.stats(NAME), 'stats')
    for (const id of IDS) {
      const thing = this.#thing(id)
      assert.equal(queue.readyAt(thing), model.readyAt(id), `readyAt ${id}`)
      assert.equal(queue.numRequeues(thing), model.numRequeues(id), `numRequeues ${id}`)
    }
    assert.ok(this.#clock.timerCount <= 1, 'at most one timer')
    if (model.waiting === 0) assert.equal(this.#clock.timerCount, 0, 'no timer when nothing waits')
    if (this.#setting.metrics === 'all') {
      assert.deepEqual(this.#depthMoves, model.depthMoves, 'depth moves')
      assert.deepEqual([this.#addsSeen, this.#retriesSeen], [model.adds, model.retries], 'adds and retries')
      assert.deepEqual(near(this.#latencies), near(model.latencies), 'latencies')
      assert.deepEqual(near(this.#durations), near(model.durations), 'work durations')
    }
    if (this.#tape) {
      const reported = this.#tape.calls.map(
        ({ call, item, priority, previousPriority }) =>
          `${call} ${item.id}${item.version} at ${priority}${call === 'touch' ? ` from ${previousPriority}` : ''}`,
      )
      assert.deepEqual(reported, model.tape, 'what the store was told')
    }
  }

  #compareOutcomes(): void {
    assert.deepEqual(this.#outcomes, this.#model.outcomes, 'what became of the promises')
    for (const [promise, outcome] of this.#outcomes.entries()) {
      const expected = this.#model.outcomes[promise]!
      if (typeof outcome === 'object' && typeof expected === 'object')
        assert.equal(outcome.thing, expected.thing, 'the newest payload itself')
    }
  }
}

const plain = new Map<string, Thing>()

function controllerOf(signal: 'none' | 'later' | 'aborted'): AbortController | undefined {
  if (signal === 'none') return undefined
  const controller = new AbortController()
  if (signal === 'aborted') controller.abort('aborted')
  return controller
}

function outcomeOf(work: Work<Thing> | NoWork): Outcome {
  return work.shutdown ? 'shutdown' : { thing: work.item, priority: work.priority }
}
