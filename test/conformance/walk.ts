/**
 * A seeded random walk: it does the same operations on the memory model and on an engine. Their answers and their whole
 * visible state must agree.
 *
 * The two have separate clocks, so nothing depends on an exact instant: a lease is far from its end or surely past it,
 * a delay is zero or long, and operations that write the present moment are milliseconds apart. The walk does not
 * compare what the contract leaves open (see `Walk.#settleLapsed`, view.ts).
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  ClaimedRecord,
  DependencyStore,
  JobStore,
  NewJob,
  StoreTransaction,
  Verdict,
} from '../../src/jobs/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openMemory } from '../../src/storage/memory/index.ts'
import { DependencyWalk } from './dependency-walk.ts'
import { verdictOf } from './jobs/making.ts'
import { Random } from './random.ts'
import { instant, viewOf, viewStats } from './view.ts'
import { walkOn } from './walking.ts'

export interface WalkRequest {
  /** A fresh backend in a new namespace. */
  readonly open: () => Promise<Backend>
  readonly seed: number
  readonly steps: number
}

/** The count of each operation. */
export type WalkCounts = Readonly<Record<string, number>>

/** Walks; throws with the seed, the step and what led there when model and engine differ. */
export async function runWalk({ open, seed, steps }: WalkRequest): Promise<WalkCounts> {
  await using engine = await open()
  const walk = new Walk(engine, seed)
  await walk.start()
  await walkOn(walk, { title: engine.name, seed, steps })
  return walk.counts
}

const farMs = 1_000_000_000
const lapseMs = 25
const queues = ['a', 'A', 'ä'] as const
const kinds = ['x', 'y'] as const
const keys = ['k', 'K', 'k '] as const
const metas = ['{"tags": ["ä"]}', ...['l', 'L', 'ł'].map((limitKey) => JSON.stringify({ limitKey }))]

/** One attempt with the token of each side. */
interface Attempt {
  readonly model: ClaimedRecord
  readonly engine: ClaimedRecord
}

class Walk {
  readonly #random: Random
  readonly #engine: Backend
  #model!: Backend
  #dependencies!: DependencyWalk
  /** The model's clock. The engine's moves as well: each step waits a little. */
  #now = Date.now()
  readonly #start = this.#now
  readonly #ids: string[] = []
  readonly #attempts: Attempt[] = []
  /** The contract does not say how long attempts from before a retry are known. */
  readonly #bygone = new Set<Attempt>()
  /** Leases may have expired without a reclaim. */
  #lapsed = false
  /** Another call came since, which may have reclaimed some of them, as the engine decides. */
  #swept = false
  readonly trace: string[] = []
  readonly counts: Record<string, number> = {}

  constructor(engine: Backend, seed: number) {
    this.#engine = engine
    this.#random = new Random(seed)
  }

  async start(): Promise<void> {
    this.#model = await openMemory({ namespace: 'model', migrate: true, now: () => this.#now })
    this.#dependencies = new DependencyWalk({
      random: this.#random,
      model: this.#model,
      farMs,
      anId: () => this.#anId(),
      note: (what) => this.#note(what),
      both: (call, view) => this.#both((_, __, dependencies) => call(dependencies), view),
    })
  }

  readonly #operations: readonly (readonly [weight: number, name: string, run: () => Promise<void>])[] = [
    [14, 'add', () => this.#add()],
    [12, 'claim', async () => void (await this.#claim(farMs))],
    [4, 'lapse', () => this.#lapse()],
    [12, 'settle', () => this.#settle()],
    [4, 'transact', () => this.#transact()],
    [2, 'transactAll', () => this.#transactAll()],
    [5, 'renew', () => this.#renew()],
    [5, 'cancel', () => this.#cancel()],
    [5, 'retry', () => this.#retry()],
    [2, 'retryDead', () => this.#retryDead()],
    [2, 'pause', () => this.#pause('pause')],
    [4, 'resume', () => this.#pause('resume')],
    [3, 'reclaim', () => this.#settleLapsed()],
    [1, 'prune', () => this.#prune()],
    [2, 'remove', () => this.#remove()],
    [3, 'outcomes', () => this.#outcomes()],
    [2, 'cancelRequests', () => this.#cancelRequests()],
    [3, 'list', () => this.#list()],
    [3, 'limit', () => this.#limit()],
    [4, 'meet', () => this.#dependencies.meet()],
    [1, 'fail', () => this.#dependencies.fail()],
    [2, 'tend', () => this.#dependencies.tend()],
    [5, 'grant', () => this.#dependencies.grant()],
    // The contract leaves open the end of a job whose lease expired before a reclaim.
    [2, 'blockAgain', () => this.#settleLapsed().then(() => this.#dependencies.blockAgain())],
    [2, 'take', () => this.#dependencies.take()],
    [1, 'rest', () => this.#settleLapsed().then(() => this.#dependencies.rest())],
    [1, 'pruneDependencies', () => this.#dependencies.prune()],
    [1, 'around', () => this.#dependencies.around()],
  ]

  async step(): Promise<void> {
    const [, name, run] = this.#random.weighted(this.#operations)
    this.counts[name] = (this.counts[name] ?? 0) + 1
    this.trace.push(name)
    if (this.trace.length > 40) this.trace.shift()
    await run()
    await this.#pass(3)
    await this.#compareAll()
  }

  /** Lets both clocks move on by at least that much. */
  async #pass(ms: number): Promise<void> {
    const before = Date.now()
    while (Date.now() - before < ms) await sleep(1)
    this.#now += ms
  }

  #note(what: string): void {
    this.trace[this.trace.length - 1] += ` ${what}`
  }

  /** The same call on both, whose answers must be the same once each is put in common terms. */
  async #both<Answer>(
    call: (jobs: JobStore, side: 'model' | 'engine', dependencies: DependencyStore) => Promise<Answer>,
    view: (answer: Answer) => unknown = (answer) => answer,
  ): Promise<Answer> {
    if (this.#lapsed) this.#swept = true
    const expected = await call(this.#model.jobs, 'model', this.#model.dependencies)
    const actual = await call(this.#engine.jobs, 'engine', this.#engine.dependencies)
    this.#note(`→ ${JSON.stringify(view(expected))}`)
    assert.deepEqual(view(actual), view(expected))
    return expected
  }

  async #add(): Promise<void> {
    await this.#settleLapsed()
    const random = this.#random
    const count = 1 + random.below(4)
    const together = Array.from({ length: count }, () => random.id(this.#start))
    const jobs = together.map((id, i): NewJob => {
      const due = random.pick([
        { runAt: this.#start - 60_000 - 1_000 * random.below(3) },
        { runAt: this.#start + farMs },
        { delayMs: farMs },
        // The present moment is written for one job only, so that no two jobs differ by the clock.
        i === 0 ? { delayMs: 0 } : { runAt: this.#start - 60_000 },
      ])
      return {
        id,
        queue: random.pick(queues),
        kind: random.pick(kinds),
        payload: JSON.stringify({ n: random.below(1_000) }),
        priority: random.pick([0, 0, 0, 1, -1, 2_147_483_647, -2_147_483_648]),
        uniqueKey: random.chance(0.4) ? random.pick(keys) : null,
        due,
        maxAttempts: 1 + random.below(3),
        backoff: random.chance(0.3) ? '{"baseMs":1}' : null,
        timeoutMs: random.chance(0.3) ? 1_000 : null,
        meta: random.chance(0.5) ? random.pick(metas) : null,
        dependsOn: this.#dependencies.dependsOn(id, together),
      }
    })
    this.#note(JSON.stringify(jobs))
    await this.#both((store) => store.add(jobs))
    this.#ids.push(...jobs.map(({ id }) => id))
  }

  async #claim(leaseMs: number): Promise<number> {
    const random = this.#random
    const asked = random.chance(0.5) ? queues : random.some(queues)
    // The order between queues is open where one of several has limits: then all available jobs are claimed.
    const limited = new Set(
      (await this.#model.jobs.stats()).flatMap(({ queue, limits }) => (limits === null ? [] : queue)),
    )
    const isMixed = asked.length > 1 && asked.some((queue) => limited.has(queue))
    const request = {
      queues: isMixed && random.chance(0.5) ? [random.pick([...limited])] : asked,
      kinds: random.chance(0.6) ? null : random.some(kinds),
      workerId: random.pick(['w1', 'w2']),
      limit: 1 + random.below(4),
      leaseMs,
    }
    if (isMixed && request.queues === asked) request.limit = 1_000
    const inOrder = <Job extends { readonly id: string }>(claimed: readonly Job[]) =>
      request.limit === 1_000 ? claimed.toSorted((a, b) => (a.id < b.id ? -1 : 1)) : claimed
    this.#note(JSON.stringify(request))
    const claims: Record<string, readonly ClaimedRecord[]> = {}
    await this.#both(
      async (jobs, side) => {
        claims[side] = inOrder(await jobs.claim(request))
        return claims[side]
      },
      (claimed) =>
        claimed.map((job) => {
          const { id, priority, attempt, handBackCount, snoozeCount, workerId, state, limited = false } = job
          const runAt = instant(job.runAt, this.#start)
          return { id, priority, runAt, attempt, handBackCount, snoozeCount, workerId, state, limited }
        }),
    )
    const taken = claims.model!.map((model, i) => ({ model, engine: claims.engine![i]! }))
    for (const { model, engine } of taken) {
      const earlier = this.#attempts.filter((attempt) => attempt.engine.id === engine.id)
      const number = (token: string) => BigInt(token.split('.')[0]!)
      for (const { engine: before } of earlier) {
        assert.ok(number(engine.token) > number(before.token), 'tokens rise')
      }
      this.#attempts.push({ model, engine })
    }
    if (this.#attempts.length > 60) this.#attempts.splice(0, this.#attempts.length - 60)
    return taken.length
  }

  async #lapse(): Promise<void> {
    const count = await this.#claim(lapseMs)
    await this.#pass(lapseMs + 5)
    if (count > 0) this.#lapsed = true
    if (this.#random.chance(0.4)) await this.#settleLapsed()
  }

  /**
   * Reclaims expired leases on both. The contract leaves open whether a job that lapsed to its death still has its
   * unique key, is retried by `retryDead` or is pruned before a reclaim, so this step comes before those calls. The
   * number of expired leases is known only when no other call came in between.
   */
  async #settleLapsed(): Promise<void> {
    if (this.#swept) {
      await this.#model.jobs.reclaim(1_000)
      await this.#engine.jobs.reclaim(1_000)
    } else {
      this.#lapsed = false
      await this.#both((jobs) => jobs.reclaim(1_000))
    }
    this.#lapsed = false
    this.#swept = false
  }

  /** A verdict for each side; only the first of a call may write the present moment. */
  #verdict(attempt: Attempt, first: boolean): Record<'model' | 'engine', Verdict> {
    const random = this.#random
    const state = random.pick(['completed', 'completed', 'scheduled', 'ready', 'dead', 'cancelled'] as const)
    const free = state === 'ready' && random.chance(0.5)
    const { model, engine } = attempt
    const verdict = {
      state,
      attempt: free ? model.attempt - 1 : model.attempt,
      handBackCount: free ? model.handBackCount + 1 : model.handBackCount,
      snoozeCount: state === 'scheduled' ? model.snoozeCount + 1 : model.snoozeCount,
      delayMs: first && random.chance(0.5) ? 0 : farMs,
      ranMs: random.chance(0.5) ? 5 : null,
      // Only an ended job has a result. The contract leaves open the result of a failed attempt.
      result: state === 'completed' && random.chance(0.7) ? `{"r":${random.below(100)}}` : null,
      error: random.chance(0.5) ? `{"message":"e${random.below(100)}"}` : null,
    }
    this.#note(`${nameOf(attempt)} ${JSON.stringify(verdict)}`)
    return { model: verdictOf(model, verdict), engine: verdictOf(engine, verdict) }
  }

  async #settle(): Promise<void> {
    const attempts = this.#random.draw(this.#attempts.slice(-15), 1 + this.#random.below(4))
    const verdicts = attempts.map((attempt, i) => this.#verdict(attempt, i === 0))
    await this.#both((jobs, side) => jobs.settle(verdicts.map((verdict) => verdict[side])))
  }

  async #transact(): Promise<void> {
    for (const attempt of this.#random.draw(this.#attempts.slice(-10), 1)) {
      const verdict = this.#verdict(attempt, true)
      const throws = this.#random.chance(0.2)
      await this.#both(async (jobs, side) => {
        const work = async () => {
          if (throws) throw new Error('the work failed')
          return verdict[side]
        }
        try {
          await jobs.transact(work, { timeoutMs: 5_000 })
          return 'committed'
        } catch (error) {
          return codeOf(error)
        }
      })
    }
  }

  async #transactAll(): Promise<void> {
    const attempts = this.#random.draw(this.#attempts.slice(-10), 1 + this.#random.below(4))
    const verdicts = attempts.map((attempt, i) => this.#verdict(attempt, i === 0))
    const throwing = this.#random.below(6)
    await this.#both(
      (jobs, side) => {
        const works = verdicts.map((verdict, i) => async (_: StoreTransaction) => {
          if (i === throwing) throw new Error('the work failed')
          return verdict[side]
        })
        return jobs.transactAll(works, { timeoutMs: 5_000 })
      },
      (answers) => answers.map((answer) => answer && codeOf(answer.error)),
    )
  }

  async #renew(): Promise<void> {
    const attempts = new Set(this.#random.draw(this.#attempts, 1 + this.#random.below(5)))
    const ms = this.#random.pick([1, farMs, 2 * farMs])
    this.#note(`${[...attempts].map(nameOf)} ${ms}`)
    await this.#both(
      (jobs, side) =>
        jobs.renew(
          [...attempts].map((attempt) => leaseOf(attempt[side])),
          ms,
        ),
      (renewed) => renewed.map(({ jobId, cancelRequested }) => `${jobId} ${cancelRequested}`).sort(),
    )
  }

  #anId(): string {
    return this.#random.chance(0.03) ? 'unknown' : (this.#random.pick(this.#ids) ?? 'unknown')
  }

  async #cancel(): Promise<void> {
    const id = this.#anId()
    this.#note(id)
    await this.#both((jobs) => jobs.cancel(id))
  }

  async #retry(): Promise<void> {
    await this.#settleLapsedSometimes()
    const id = this.#anId()
    this.#note(id)
    const answer = await this.#both((jobs) => jobs.retry(id))
    if (answer?.outcome === 'ready') this.#forget(id)
  }

  async #retryDead(): Promise<void> {
    await this.#settleLapsed()
    const random = this.#random
    const query = {
      ...(random.chance(0.5) && { queue: random.pick(queues) }),
      ...(random.chance(0.3) && { kind: random.pick(kinds) }),
      limit: 1_000,
    }
    const dead = (await this.#model.jobs.list({ state: 'dead', limit: 1_000 })).filter(
      (job) => (query.queue ?? job.queue) === job.queue && (query.kind ?? job.kind) === job.kind,
    )
    // The order of two dead jobs with one key depends on the meaning of "oldest"; neither is compared.
    const named = dead.flatMap(({ queue, uniqueKey }) => (uniqueKey === null ? [] : `${queue}\n${uniqueKey}`))
    if (new Set(named).size < named.length) return
    await this.#both((jobs) => jobs.retryDead(query))
    // They are due at one moment in the model; where the engine's clock moved between two, their order may differ.
    const runAts = new Set<number>()
    for (const { id } of dead) this.#forget(id)
    for (const { id } of dead) runAts.add((await this.#engine.jobs.find(id))!.runAt)
    if (runAts.size > 1) for (const { id } of dead) await this.#both((jobs) => jobs.cancel(id))
  }

  async #pause(verb: 'pause' | 'resume'): Promise<void> {
    const queue = this.#random.pick(queues)
    this.#note(queue)
    await this.#both((jobs) => jobs[verb](queue))
  }

  async #limit(): Promise<void> {
    const queue = this.#random.pick(queues)
    const limits = this.#dependencies.limits()
    this.#note(`${queue} ${JSON.stringify(limits)}`)
    await this.#both((jobs) => jobs.setLimits(queue, limits))
  }

  async #prune(): Promise<void> {
    await this.#settleLapsed()
    await this.#pass(3)
    const olderThanMs = this.#random.chance(0.5) ? 0 : farMs
    await this.#both((jobs) => jobs.prune({ olderThanMs, limit: 1_000 }))
    for (const { model } of this.#attempts) {
      if (!(await this.#model.jobs.find(model.id))) this.#forget(model.id)
    }
  }

  async #remove(): Promise<void> {
    const ids = [...new Set(Array.from({ length: 1 + this.#random.below(4) }, () => this.#anId()))]
    this.#note(`${ids}`)
    const removed = await this.#both(
      (jobs) => jobs.remove(ids),
      (gone) => gone.toSorted(),
    )
    for (const id of removed) this.#forget(id)
  }

  async #outcomes(): Promise<void> {
    const known = this.#attempts.filter((attempt) => !this.#bygone.has(attempt))
    const attempts = this.#random.draw(known, 5)
    this.#note(`${attempts.map(nameOf)}`)
    await this.#both((jobs, side) => jobs.outcomes(attempts.map((attempt) => leaseOf(attempt[side]))))
  }

  #forget(id: string): void {
    for (const attempt of this.#attempts) if (attempt.model.id === id) this.#bygone.add(attempt)
  }

  async #cancelRequests(): Promise<void> {
    const attempts = this.#random.draw(this.#attempts, 6)
    this.#note(`${attempts.map(nameOf)}`)
    await this.#both(
      (jobs, side) => jobs.cancelRequests(attempts.map((attempt) => leaseOf(attempt[side]))),
      (ids) => [...new Set(ids)].sort(),
    )
  }

  async #list(): Promise<void> {
    const random = this.#random
    const query = {
      ...(random.chance(0.4) && { queue: random.pick(queues) }),
      ...(random.chance(0.4) && { kind: random.pick(kinds) }),
      ...(random.chance(0.6) && {
        state: random.pick([
          'scheduled',
          'ready',
          'waiting',
          'running',
          'completed',
          'dead',
          'cancelled',
        ] as const),
      }),
      ...(random.chance(0.3) && this.#ids.length > 0 && { before: random.pick(this.#ids) }),
      limit: random.pick([1, 3, 1_000]),
    }
    this.#note(JSON.stringify(query))
    await this.#both(
      (jobs) => jobs.list(query),
      (records) => records.map(({ id, state }) => [id, state]),
    )
  }

  async #settleLapsedSometimes(): Promise<void> {
    if (this.#random.chance(0.5)) await this.#settleLapsed()
  }

  async #compareAll(): Promise<void> {
    const view = { start: this.#start, lapsed: this.#lapsed }
    const expected = await this.#model.jobs.list({ limit: 10_000 })
    const actual = await this.#engine.jobs.list({ limit: 10_000 })
    assert.deepEqual(
      actual.map((record) => viewOf(record, view)),
      expected.map((record) => viewOf(record, view)),
    )
    assert.deepEqual(viewStats(await this.#engine.jobs.stats()), viewStats(await this.#model.jobs.stats()))
    assert.deepEqual(await this.#dependencies.seen(this.#engine), await this.#dependencies.seen(this.#model))
  }
}

function leaseOf({ id, token }: ClaimedRecord) {
  return { jobId: id, token }
}

/** An attempt as the trace shows it: its job and the number of its lease. */
function nameOf({ model }: Attempt): string {
  return `${model.id}#${model.token.split('.')[0]}`
}

function codeOf(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string }
  return code ?? String(message)
}
