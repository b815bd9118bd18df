import type { ClaimedRecord, ClaimRequest, QueueLimits } from '../../../jobs/index.ts'
import { decodeLimits, LimitPlan, wholeQueue } from '../../sql/limit-plan.ts'
import { createNonce } from '../../token.ts'
import type { Runner } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { byOrder, type Claimed, type ClaimRow, decodeClaimed, isRefused } from './claim.ts'
import { LimitCandidates, type Sight } from './limit-candidates.ts'
import type { CountRow, LimitStatements, RuleRow } from './limit-claim.ts'
import { type StraightLimits, straightLimits, straightValues } from './limit-straight.ts'
import type { Reclaimer } from './reclaim.ts'

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

  /**
   * All of a claim from one queue at once. Undefined: it was not tried, as the last one found something that such a claim
   * would be refused for, or it was refused.
   */
  async claimStraight(request: ClaimRequest, queue: string): Promise<readonly ClaimedRecord[] | undefined> {
    const { namespace, statements, givers, turns } = this.#space
    const limits = givers.straight(queue)
    if (limits === undefined) return undefined
    const leave = await turns.enter(queue)
    if (leave === undefined) return []
    const { workerId, limit } = request
    const nonce = createNonce()
    const values = straightValues(namespace, queue, request, limits, limit, nonce)
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const sending = this.#sender.atOnceWaiting(`${namespace} ${queue}`, async (client) => {
      const { own, take } = statements.straight
      const owning = this.#sender.send(client, own, [namespace, queue])
      const adopting = this.#sender.send(client, statements.limits.adopt, [namespace, queue])
      const taking = this.#sender.sendForArrays<ClaimRow>(client, take, values)
      // The next is sent behind this one, and the database begins with it as soon as it has done this.
      turns.passOn(queue, leave, over)
      const [taken] = await Promise.all([taking, owning, adopting])
      return taken
    })
    try {
      const rows = await sending
      if (isRefused(rows)) {
        givers.refused(queue)
        return undefined
      }
      givers.accepted(queue)
      const lease = decodeClaimed(rows, nonce, workerId)
      return this.#remember(queue, request, lease && limitedLease(lease, nonce), limits)
    } catch (error) {
      // Step by step it may work.
      givers.refused(queue)
      throw error
    } finally {
      leave()
      end()
    }
  }

  /** Those with something to give, in the order of their first jobs. */
  async #listReady(limited: readonly string[]): Promise<readonly string[]> {
    // Of one that gave something a moment ago nothing need be found out first.
    if (limited.length === 1 && this.#space.givers.has(limited[0]!)) return limited
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
    const take = async () => {
      const { lease, straight } = await this.#tryTo(queue, request, limit)
      return this.#remember(queue, request, lease, straight)
    }
    // It has its connection, and may have the row: whoever has the turn would wait for that, and this one for the turn.
    if (this.#sender.isOneTransaction) return take()
    const leave = await this.#space.turns.enter(queue)
    return leave === undefined ? [] : take().finally(leave)
  }

  /** Remembers what a claim took; answers it in order. */
  #remember(
    queue: string,
    { leaseMs }: ClaimRequest,
    lease: Lease | undefined,
    straight: StraightLimits | undefined,
  ): readonly ClaimedRecord[] {
    const { givers, leases } = this.#space
    if (lease === undefined) {
      givers.gaveNothing(queue)
      return []
    }
    givers.gave(queue, straight)
    const { leaseNo, nonce, jobs } = lease
    this.#sender.onCommit(() => leases.remember({ leaseNo, nonce }, jobs, leaseMs))
    return jobs.toSorted(byOrder)
  }

  async #tryTo(queue: string, request: ClaimRequest, limit: number): Promise<Attempt> {
    // Leases may run out one after the other; a bound, so that a claim always ends.
    for (let tries = 0; tries < 4; tries++) {
      const attempt = await this.#sender.allOrNothingWaiting(
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

    const { candidates, place, isNear } = await this.#candidates.lock(client, {
      queue,
      request,
      room,
      sight,
      rule,
    })
    const plan = new LimitPlan(sight)
    const places = plan.take(candidates, limit).map((taken) => taken.place)
    const isMoved = place !== rule.key_position
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
    const straight = isNear ? straightLimits(rule.limits, limits) : undefined
    return { isKept: true, lease: limitedLease(decodeClaimed(taken, nonce, workerId)!, nonce), straight }
  }
}

/** The same records: one claim makes thousands. */
function limitedLease({ leaseNo, jobs }: Claimed, nonce: string): Lease {
  for (const job of jobs) Object.assign(job, { limited: true as const })
  return { leaseNo, nonce, jobs }
}

interface Lease {
  readonly leaseNo: string
  readonly nonce: string
  /** In the order of the lease's row. */
  readonly jobs: readonly ClaimedRecord[]
}

interface Attempt {
  /** Something was written. */
  readonly isKept: boolean
  /** A lease ran out that must be taken back first. */
  readonly isEarly?: boolean
  readonly lease?: Lease
  /** By what the next claim may go straight. */
  readonly straight?: StraightLimits | undefined
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
