import type { ClaimedRecord, ClaimRequest, QueueLimits } from '../../jobs/index.ts'
import { decodeLimits, LimitPlan, wholeQueue } from '../limitplan.ts'
import { createNonce } from '../token.ts'
import { byOrder, type ClaimRow, decodeClaimed } from './claim.ts'
import type { Runner } from './connection.ts'
import { LimitCandidates, type Sight } from './limitcandidates.ts'
import type { CountRow, LimitStatements, RuleRow } from './limitclaim.ts'
import type { Reclaimer } from './reclaim.ts'
import type { Sender } from './sender.ts'
import type { Space } from './space.ts'

/**
 * Claims from queues with limits. It is a transaction for each queue, and whoever has the queue's row is alone in it:
 *
 *     lock the row ──▶ count what runs and has started ──▶ lock candidates ──▶ take what there is room for
 *
 * A queue whose row somebody else keeps too long has nothing to give this time; whoever died in the middle left nothing.
 * It waits for nothing but that row: jobs that others hold are passed over.
 */
export class LimitClaimer {
  readonly #sender: Sender
  readonly #space: Space
  readonly #reclaimer: Reclaimer
  readonly #statements: LimitStatements
  readonly #candidates: LimitCandidates
  /** The queue that was claimed from last, if it gave something. */
  #giver: string | undefined

  constructor(sender: Sender, space: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#space = space
    this.#reclaimer = reclaimer
    this.#statements = space.statements.limits
    this.#candidates = new LimitCandidates(sender, space)
  }

  /** Up to `limit` jobs of these queues, of those first whose first job is. */
  async claim(
    request: ClaimRequest,
    limited: readonly string[],
    limit: number,
  ): Promise<readonly ClaimedRecord[]> {
    const claimed: ClaimedRecord[] = []
    const queues = await this.#listReady(limited)
    if (this.#sender.isOneTransaction) await this.#lockInOrder(queues)
    for (const queue of queues) {
      if (claimed.length >= limit) break
      try {
        claimed.push(...(await this.#claimFrom(queue, request, limit - claimed.length)))
      } catch (error) {
        // What was taken before must be answered.
        if (claimed.length === 0) throw error
        break
      }
    }
    return claimed
  }

  /** Those with something to give, in the order of their first jobs. */
  async #listReady(limited: readonly string[]): Promise<readonly string[]> {
    // Of one that gave something a moment ago nothing need be found out first.
    if (limited.length === 1 && limited[0] === this.#giver) return limited
    const values = [this.#space.namespace, limited]
    const { rows } = await this.#sender.run<{ queue: string }>(this.#statements.ready, values)
    return rows.map(({ queue }) => queue)
  }

  /** Where the rows stay locked, they are locked in one order, so that two such claims never wait in a ring. */
  async #lockInOrder(queues: readonly string[]): Promise<void> {
    if (queues.length < 2) return
    for (const queue of queues.toSorted()) {
      await this.#sender.run(this.#statements.rule, [this.#space.namespace, queue])
    }
  }

  async #claimFrom(queue: string, request: ClaimRequest, limit: number): Promise<readonly ClaimedRecord[]> {
    const { turns, leases } = this.#space
    const leave = await turns.enter(queue)
    if (leave === undefined) return []
    try {
      const { lease } = await this.#tryTo(queue, request, limit)
      this.#giver = lease === undefined ? undefined : queue
      if (lease === undefined) return []
      const { leaseNo, nonce, jobs } = lease
      this.#sender.onCommit(() => leases.remember({ leaseNo, nonce }, jobs, request.leaseMs))
      return jobs.toSorted(byOrder)
    } finally {
      leave()
    }
  }

  async #tryTo(queue: string, request: ClaimRequest, limit: number): Promise<Attempt> {
    // Leases may run out one after the other; a bound, so that a claim always ends.
    for (let tries = 0; tries < 4; tries++) {
      const attempt = await this.#sender.allOrNothingInLine(
        (client, keep) => this.#attempt(client, keep, queue, request, limit),
        ({ isKept }) => isKept,
      )
      if (!attempt.isEarly) return attempt
      await this.#reclaimer.reclaim(100_000)
    }
    return nothing
  }

  async #attempt(
    client: Runner,
    keep: () => void,
    queue: string,
    request: ClaimRequest,
    limit: number,
  ): Promise<Attempt> {
    const given = [this.#space.namespace, queue]
    const [ruled, , counted] = await Promise.all([
      this.#sender.send<RuleRow>(client, this.#statements.rule, given),
      this.#sender.send(client, this.#statements.adopt, given),
      this.#sender.send<CountRow>(client, this.#statements.count, [...given, this.#space.lapses.ignored()]),
    ])
    const [rule] = ruled.rows
    if (rule === undefined) return nothing
    const { running, starts, lapsed, now } = counted.rows[0]!
    // Its jobs may go first.
    if (lapsed) return { isKept: false, isEarly: true }
    const limits = decodeLimits(rule.limits) ?? noLimits
    const isCounted = countsRunning(limits)
    const sight: Sight = {
      now: Number(now),
      limits,
      running: new Map(isCounted ? Object.entries(running ?? {}) : []),
      starts: new Map(starts === null ? [] : [[wholeQueue, starts]]),
    }
    const room = Math.min(new LimitPlan(sight).room, limit)
    if (room < 1) return nothing

    const { candidates, place } = await this.#candidates.lock(client, { queue, request, room, sight, rule })
    const plan = new LimitPlan(sight)
    const places = plan.take(candidates, limit).map((taken) => taken.place)
    const isMoved = place !== rule.key_place
    if (places.length === 0 && !isMoved) return nothing
    const writing: Promise<unknown>[] = []
    const write = (statement: keyof LimitStatements, ...values: unknown[]) =>
      writing.push(this.#sender.send(client, this.#statements[statement], [...given, ...values]))
    if (isMoved) write('place', place)
    if (places.length === 0) {
      await Promise.all(writing)
      return { isKept: true }
    }
    const kept = [...plan.kept()]
    if (kept.length > 0) {
      write('forgetStarts')
      write(
        'keepStarts',
        kept.map(([key]) => key),
        kept.map(([, starts]) => starts),
        kept.map(([key]) => countsUntil(key === wholeQueue ? limits : limits.perKey, sight.now)),
      )
    }
    const nonce = createNonce()
    const { workerId, leaseMs } = request
    const taking = this.#sender.sendForArrays<ClaimRow>(client, this.#statements.take, [
      this.#space.namespace,
      places,
      nonce,
      workerId,
      leaseMs,
      sight.now,
      isCounted,
    ])
    keep()
    const [taken] = await Promise.all([taking, ...writing])
    const { leaseNo, jobs } = decodeClaimed(taken, nonce, workerId)!
    return { isKept: true, lease: { leaseNo, nonce, jobs: jobs.map(limitedOf) } }
  }
}

/** The same record: one claim makes thousands. */
function limitedOf(job: ClaimedRecord): ClaimedRecord {
  return Object.assign(job, { limited: true as const })
}

interface Attempt {
  /** Something was written. */
  readonly isKept: boolean
  /** A lease ran out that must be taken back first. */
  readonly isEarly?: boolean
  readonly lease?: {
    readonly leaseNo: string
    readonly nonce: string
    /** In the order of the lease's row. */
    readonly jobs: readonly ClaimedRecord[]
  }
}

const nothing: Attempt = { isKept: false }

/** Of a rule that nobody can read. */
const noLimits: QueueLimits = { concurrency: null, rate: null, perKey: null }

/** Whether it matters how many run. */
export function countsRunning({ concurrency, perKey }: QueueLimits): boolean {
  return concurrency !== null || (perKey?.concurrency ?? null) !== null
}

/** After that, starts of now count no more: a bucket ends at most a sixtieth of the span later. */
export function countsUntil(limit: QueueLimits['perKey'], now: number): number {
  const perMs = limit?.rate?.perMs ?? 0
  return now + perMs + Math.ceil(perMs / 60) + 1
}
