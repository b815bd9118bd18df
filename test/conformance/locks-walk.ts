/**
 * A seeded random walk over wait queues: it takes the same steps on the memory model and on an engine. Their answers
 * and their visible state must agree after every step.
 *
 * The two have separate clocks, so nothing depends on an exact instant. A span is far from its end, or so short that
 * the walk waits until it is surely over before the next step. Outcomes are kept long or not at all for a whole walk,
 * because each engine decides when it forgets an ended wait queue within that time. In every other walk the operations
 * of a resource exclude each other.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LockKey, LockStore, WaitingHolder, WaitQueueQuery } from '../../src/locks/index.ts'
import type {
  AcquireRequest,
  Conflicts,
  LockTimes,
  Requester,
  Ruled,
  Standing,
} from '../../src/locks/rules/index.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'
import { notifiedView, queueView, standingView, summaryView } from './lock-view.ts'
import type { LocksBackend } from './locks/opening.ts'
import { Random } from './random.ts'
import { walkOn } from './walking.ts'

export interface LocksWalkRequest {
  /** A fresh backend in a new namespace. */
  readonly open: () => Promise<LocksBackend>
  readonly title: string
  readonly seed: number
  readonly steps: number
}

/** The count of each kind of step. */
export type LocksWalkCounts = Readonly<Record<string, number>>

/** Walks. Throws with the seed, the step and the last steps when model and engine differ. */
export async function runLocksWalk({ open, title, seed, steps }: LocksWalkRequest): Promise<LocksWalkCounts> {
  await using engine = await open()
  assert.ok(engine.locks, `${title} keeps no locks`)
  const walk = new LocksWalk(engine.locks, seed)
  await walkOn(walk, { title: title, seed, steps })
  return walk.counts
}

export const farMs = 1_000_000_000
const shortMs = 25
const nodes = ['a', 'A', 'b ', 'ä', '😀'] as const
const keys: readonly LockKey[] = [
  { operation: 'pull', resource: 'r' },
  { operation: 'pull', resource: 'r ' },
  { operation: 'update', resource: 'r' },
  { operation: 'drop', resource: 'r' },
]
/** In every other walk operations exclude each other: a chain, so that pull and drop do not. */
const rules: Conflicts = [
  ['pull', 'update'],
  ['update', 'drop'],
]

type Side = 'model' | 'engine'

/** A grant with the token of each side. */
interface Grant {
  readonly key: LockKey
  readonly who: Requester
  readonly token: Readonly<Record<Side, number>>
}

class LocksWalk {
  readonly #random: Random
  readonly #stores: Readonly<Record<Side, LockStore>>
  /** The model's clock. The engine's moves as well: each step waits a little. */
  #now = Date.now()
  readonly #keepMs: number
  readonly #conflicts: Conflicts | undefined
  readonly #grants: Grant[] = []
  readonly #revisions = new Map<LockKey, number>()
  /** A lease or delay of this step is short. */
  #isShort = false
  #delays = 0
  readonly trace: string[] = []
  readonly counts: Record<string, number> = {}

  constructor(engine: LockStore, seed: number) {
    this.#stores = { model: createMemoryLocks(() => this.#now), engine }
    this.#random = new Random(seed)
    this.#keepMs = seed % 3 === 0 ? shortMs : farMs
    this.#conflicts = seed % 2 === 0 ? rules : undefined
  }

  readonly #steps: readonly (readonly [weight: number, name: string, run: () => Promise<void>])[] = [
    [30, 'acquire', () => this.#acquire()],
    [8, 'turn', () => this.#turn()],
    [10, 'release', () => this.#release()],
    [7, 'renew', () => this.#renew()],
    [4, 'shorten', () => this.#shorten()],
    [6, 'leave', () => this.#leave()],
    [3, 'evict', () => this.#evict()],
    [3, 'fail', () => this.#fail()],
    [2, 'waitingHolders', () => this.#findWaitingHolders()],
    [8, 'keep', () => this.#keep()],
    [6, 'sweep', () => this.#sweep()],
    [3, 'list', () => this.#list()],
    [2, 'inspect', () => this.#inspect()],
    [1, 'delay', () => this.#delay()],
  ]

  async step(): Promise<void> {
    const [, name, run] = this.#random.weighted(this.#steps)
    this.counts[name] = (this.counts[name] ?? 0) + 1
    this.trace.push(name)
    if (this.trace.length > 40) this.trace.shift()
    await run()
    await this.#settle()
    await this.#compareAll()
  }

  /** Waits until all short leases and delays are over. */
  async #settle(): Promise<void> {
    const queues = await this.#stores.model.list({ limit: 100 })
    const runsOut = queues.some(({ holder }) => holder !== null && holder.expiresAt < this.#now + farMs / 2)
    await this.#pass(this.#isShort || runsOut ? shortMs + 5 : 3)
    this.#isShort = false
  }

  /** Lets both clocks move on by at least that much. */
  async #pass(ms: number): Promise<void> {
    const before = Date.now()
    while (Date.now() - before < ms) await sleep(1)
    this.#now += ms
  }

  /** Adds to the trace, without distant and empty values. */
  #note(what: unknown): void {
    const isWorthIt = (_: string, value: unknown) =>
      value === farMs || value === null || value === false ? undefined : value
    this.trace[this.trace.length - 1] +=
      ` ${typeof what === 'string' ? what : JSON.stringify(what, isWorthIt)}`
  }

  /** Long, or now and then short. */
  #span(share = 0.12): number {
    if (!this.#random.chance(share)) return farMs
    this.#isShort = true
    return shortMs
  }

  #times(): LockTimes {
    if (this.#keepMs === shortMs) this.#isShort = true
    return {
      waiterLeaseMs: this.#span(),
      streamedTakeUpMs: this.#span(),
      takeUpMs: this.#span(),
      keepMs: this.#keepMs,
      lockDelayMs: 0,
      maxWaiters: this.#random.chance(0.2) ? 3 : 10_000,
      ...(this.#conflicts && { conflicts: this.#conflicts }),
    }
  }

  #who(): Requester {
    const node = this.#random.pick(nodes)
    return { node, requestId: this.#random.chance(0.2) ? `${node}2` : node }
  }

  /** The same call on both. Their answers must be equal once tokens are normalised. */
  async #both<Answer>(
    call: (store: LockStore, side: Side) => Promise<Answer>,
    view: (answer: Answer, now: number) => unknown,
  ): Promise<Readonly<Record<Side, Answer>>> {
    const model = await call(this.#stores.model, 'model')
    const engine = await call(this.#stores.engine, 'engine')
    const expected = view(model, this.#now)
    this.#note(`→ ${JSON.stringify(expected)}`)
    assert.deepEqual(view(engine, Date.now()), expected)
    return { model, engine }
  }

  /** A step on one wait queue. The notified requests and the change of the revision must also be as in the model. */
  async #rule<Answer extends Ruled<object>>(
    key: LockKey,
    call: (store: LockStore, side: Side) => Promise<Answer>,
    view: (answer: Answer, now: number) => unknown,
  ): Promise<Readonly<Record<Side, Answer>>> {
    const answers = await this.#both(call, (answer, now) => ({
      answer: view(answer, now),
      notified: notifiedView(answer.notified),
      elsewhere: (answer.elsewhere ?? [])
        .map(({ operation, notified }) => ({ operation, ...notifiedView(notified) }))
        .toSorted((a, b) => (a.operation < b.operation ? -1 : 1)),
    }))
    const { notified, revision } = answers.engine
    const before = this.#revisions.get(key) ?? 0
    if (notified.changed) assert.ok(revision > before, `revision ${revision} after ${before}`)
    else if (this.#keepMs === farMs) assert.equal(revision, before, 'the revision stays')
    this.#revisions.set(key, Math.max(before, revision))
    return answers
  }

  /** Records a grant of both; the engine's tokens rise on every key. */
  #see(key: LockKey, who: Requester, model: Standing | undefined, engine: Standing | undefined): void {
    if (model?.status !== 'granted' || engine?.status !== 'granted') return
    const token = { model: model.token, engine: engine.token }
    const before = this.#grants.filter((grant) => grant.key === key)
    const known = before.find((grant) => grant.token.model === token.model)
    if (known) {
      assert.equal(token.engine, known.token.engine, 'the same grant has the same token')
      return
    }
    for (const grant of before) assert.ok(token.engine > grant.token.engine, 'tokens rise')
    assert.ok(Number.isSafeInteger(token.engine))
    this.#grants.push({ key, who, token })
    if (this.#grants.length > 60) this.#grants.shift()
  }

  async #ask(key: LockKey, who: Requester, options: Partial<AcquireRequest> = {}): Promise<void> {
    const random = this.#random
    const ask: AcquireRequest = {
      ...who,
      wait: random.chance(0.85),
      want: random.chance(0.6) ? 'result' : 'turn',
      ttlMs: this.#span(),
      deadlineMs: random.chance(0.75) ? null : this.#span(0.5),
      isStreamed: random.chance(0.4),
      ...options,
    }
    const times = this.#times()
    this.#note([key, ask, times])
    const { model, engine } = await this.#rule(
      key,
      (store) => store.acquire(key, ask, times),
      ({ standing }, now) => standingView(standing, now),
    )
    this.#see(key, who, model.standing, engine.standing)
  }

  #acquire(): Promise<void> {
    return this.#ask(this.#random.pick(keys), this.#who())
  }

  /** The holder takes up its grant, and ends the turn. */
  async #turn(): Promise<void> {
    const key = this.#random.pick(keys)
    const holder = (await this.#stores.model.inspect(key, 0))?.holder
    if (!holder) return
    const { node, requestId } = holder
    // Two calls in one step: if a lease could expire between them, the two sides might differ.
    await this.#ask(key, { node, requestId }, { ttlMs: farMs })
    const last = this.#grants.findLast((grant) => grant.key === key)
    if (last) await this.#end(last)
  }

  /** A recorded grant: mostly the last of a key, whose holder it may be; else any, or one that never existed. */
  #grant(): Grant {
    const random = this.#random
    const key = random.pick(keys)
    const own = this.#grants.filter((grant) => grant.key === key)
    const known = random.chance(0.7) ? own.at(-1) : random.draw(own, 1)[0]
    if (known === undefined || random.chance(0.05))
      return { key, who: this.#who(), token: { model: 1, engine: 1 } }
    if (random.chance(0.9)) return known
    const { model, engine } = known.token
    if (random.chance(0.5)) return { ...known, who: this.#who() }
    return { ...known, token: { model: model + 1, engine: engine + 1 } }
  }

  #release(): Promise<void> {
    return this.#end(this.#grant())
  }

  async #end({ key, who, token }: Grant): Promise<void> {
    const random = this.#random
    const outcome = random.pick(['success', 'failure'] as const)
    const value = random.chance(0.9) ? JSON.stringify(random.below(1_000)) : null
    const end = { outcome, value, terminal: outcome === 'failure' && random.chance(0.3) }
    const times = this.#times()
    this.#note([key, who, end, times])
    await this.#rule(
      key,
      (store, side) => store.release(key, { ...who, token: token[side] }, end, times),
      ({ released }) => released,
    )
  }

  async #renew(): Promise<void> {
    const { key, who, token } = this.#grant()
    const progress = this.#random.pick([undefined, null, '1', '{"ä":"😀"}'])
    const [ttlMs, times] = [this.#random.pick([shortMs, farMs, 2 * farMs, undefined]), this.#times()]
    this.#note([key, who, ttlMs ?? 'its own', progress ?? 'none', times])
    await this.#rule(
      key,
      (store, side) => store.renew(key, { ...who, token: token[side] }, { ttlMs, progress }, times),
      // A lease that is far from its end stays so, whatever its renewal.
      ({ expiresAt }) => expiresAt !== undefined,
    )
  }

  async #shorten(): Promise<void> {
    const { key, who, token } = this.#grant()
    const [toMs, times] = [this.#random.pick([0, this.#span(1), 2 * farMs]), this.#times()]
    this.#note([key, who, toMs, times])
    await this.#rule(
      key,
      (store, side) => store.shorten(key, { ...who, token: token[side] }, toMs, times),
      ({ shortened }) => shortened,
    )
  }

  async #leave(): Promise<void> {
    const [key, who, times] = [this.#random.pick(keys), this.#who(), this.#times()]
    this.#note([key, who, times])
    await this.#rule(
      key,
      (store) => store.leave(key, who, times),
      ({ left }) => left,
    )
  }

  async #evict(): Promise<void> {
    const [key, who, times] = [this.#random.pick(keys), this.#who(), this.#times()]
    this.#note([key, who, times])
    await this.#rule(
      key,
      (store) => store.evict(key, who, times),
      ({ evicted }) => evicted,
    )
  }

  /** Fails the wait of a requester that holds another lock; now and then at a wrong position. */
  async #fail(): Promise<void> {
    const times = this.#times()
    const [model, engine] = await Promise.all([
      this.#stores.model.findWaitingHolders(keys),
      this.#stores.engine.findWaitingHolders(keys),
    ])
    const [holder] = this.#random.draw(model, 1)
    const twin = holder && engine.find((other) => waitingHolderView(other) === waitingHolderView(holder))
    if (!holder || !twin) return
    const key = keys.find((one) => sameQueue(one, holder.waitsFor))
    if (!key) return
    const off = this.#random.chance(0.2) ? 1 : 0
    const seq = { model: holder.seq + off, engine: twin.seq + off }
    this.#note([holder, off, times])
    await this.#rule(
      key,
      (store, side) => store.fail(key, { ...holder.who, seq: seq[side] }, '{"code":"ä"}', times),
      ({ failed }) => failed,
    )
  }

  async #findWaitingHolders(): Promise<void> {
    const some = [...new Set(this.#random.draw(keys, 1 + this.#random.below(keys.length)))]
    await this.#both(
      (store) => store.findWaitingHolders(some),
      (holders) => holders.map(waitingHolderView).toSorted(),
    )
  }

  async #keep(): Promise<void> {
    const [key, who, times] = [this.#random.pick(keys), this.#who(), this.#times()]
    const isStreamed = this.#random.chance(0.5)
    this.#note([key, who, isStreamed, times])
    const { model, engine } = await this.#rule(
      key,
      (store) => store.keep(key, who, { isStreamed }, times),
      ({ standing }, now) => standingView(standing, now),
    )
    this.#see(key, who, model.standing, engine.standing)
  }

  async #sweep(): Promise<void> {
    const times = this.#times()
    this.#note(times)
    await this.#both(
      (store) => store.sweep(1_000, times),
      (swept) => {
        const byQueue = Map.groupBy(swept, ({ key }) => JSON.stringify([key.operation, key.resource]))
        return [...byQueue]
          .map(([queue, queues]) => ({
            queue,
            // The notifications of a wait queue may come in one answer or in several.
            notified: queues.flatMap(({ notified }) => notifiedView(notified).requesters).toSorted(),
            lapses: queues.filter(({ notified }) => notified.lapsed).length,
          }))
          .toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
      },
    )
  }

  async #list(): Promise<void> {
    const random = this.#random
    const query: WaitQueueQuery = {
      ...(random.chance(0.4) && { operation: random.pick(['pull', 'update', 'Pull']) }),
      ...(random.chance(0.3) && { search: random.pick(['r', 'r ', 'R', '%']) }),
      ...(random.chance(0.3) && { after: random.pick(keys) }),
      limit: 100,
    }
    this.#note(query)
    await this.#both(
      (store) => store.list(query),
      (queues, now) => queues.filter(isBusy).map((queue) => summaryView(queue, now)),
    )
  }

  async #inspect(): Promise<void> {
    const [key, limit] = [this.#random.pick(keys), this.#random.below(3)]
    this.#note([key, limit])
    await this.#both(
      (store) => store.inspect(key, limit),
      (view, now) => queueView(view, { now, comparesEnd: this.#keepMs === farMs }),
    )
  }

  /** A separate wait queue, in which an endless delay follows a lost lease. */
  async #delay(): Promise<void> {
    const key = { operation: 'delayed', resource: `${this.#delays++}` }
    await this.#ask(key, this.#who(), { wait: true, ttlMs: shortMs })
    await this.#pass(shortMs + 5)
    const times = { ...this.#times(), lockDelayMs: farMs }
    for (let asks = 1 + this.#random.below(3); asks > 0; asks--) {
      const who = this.#who()
      const wait = this.#random.chance(0.7)
      const options = { want: 'result', ttlMs: farMs, deadlineMs: null, isStreamed: false } as const
      await this.#rule(
        key,
        (store) => store.acquire(key, { ...who, ...options, wait }, times),
        ({ standing }, now) => standingView(standing, now),
      )
    }
  }

  /** Operations that exclude each other are not held at the same time. */
  async #checkExclusion(): Promise<void> {
    const queues = await this.#stores.engine.list({ limit: 1_000 })
    const held = queues.filter(({ holder }) => holder !== null)
    for (const [one, other] of this.#conflicts ?? []) {
      const both = held.filter(({ operation }) => operation === one || operation === other)
      const resources = both.map(({ resource }) => resource)
      assert.equal(new Set(resources).size, resources.length, `${one} and ${other} exclude each other`)
    }
  }

  async #compareAll(): Promise<void> {
    const [model, engine] = [this.#stores.model, this.#stores.engine]
    const comparesEnd = this.#keepMs === farMs
    for (const key of keys) {
      const expected = queueView(await model.inspect(key, 100), { now: this.#now, comparesEnd })
      const queue = await engine.inspect(key, 100)
      const actual = queueView(queue, { now: Date.now(), comparesEnd })
      assert.deepEqual(actual, expected, `${key.operation} of "${key.resource}" as it shows`)
      // A sweep raises the revision too, by an unknown amount; a deleted wait queue has none.
      const before = this.#revisions.get(key) ?? 0
      const revision = queue?.revision || before
      assert.ok(revision >= before, `revision ${revision} after ${before}`)
      this.#revisions.set(key, revision)
    }
    await this.#checkExclusion()
    const expected = (await model.list({ limit: 1_000 })).filter(isBusy)
    const actual = (await engine.list({ limit: 1_000 })).filter(isBusy)
    assert.deepEqual(
      actual.map((queue) => summaryView(queue, Date.now())),
      expected.map((queue) => summaryView(queue, this.#now)),
      'the lists',
    )
  }
}

/** After a holder's lease expired unnoticed, the engine may list its wait queue or not. */
function isBusy({
  holder,
  waiterCount,
}: {
  readonly holder: unknown
  readonly waiterCount: number
}): boolean {
  return holder !== null || waiterCount > 0
}

function waitingHolderView({ who, holds, waitsFor }: WaitingHolder): string {
  return JSON.stringify([who.node, who.requestId, holds, waitsFor])
}

function sameQueue(a: LockKey, b: LockKey): boolean {
  return a.operation === b.operation && a.resource === b.resource
}
