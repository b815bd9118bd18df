import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import { createNonce } from '../../token.ts'
import { inOnePacket } from '../connection/driver.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import { type Position, start } from '../jobs/cursor.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { byOrder, type ClaimRow, claimValues, decodeClaimed, isRefused, type PromoteRow } from './claim.ts'
import { LimitClaimer } from './limit-claimer.ts'
import type { Reclaimer } from './reclaim.ts'

/**
 * Runs claims: one statement when all is calm; another trip when something fell due, when a lease ran out (take it back
 * first, its jobs may be the best) or when a claim from the cursor came short (look from the start). What that trip finds
 * to have limits is claimed from apart, before or after the others by turns, so that neither kind keeps the other waiting.
 */
export class Claimer {
  readonly #sender: Sender
  readonly #space: Space
  readonly #reclaimer: Reclaimer
  readonly #limited: LimitClaimer

  constructor(sender: Sender, space: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#space = space
    this.#reclaimer = reclaimer
    this.#limited = new LimitClaimer(sender, space, reclaimer)
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const queues = [...new Set(request.queues)]
    if (queues.length === 0 || request.limit <= 0) return []
    const { turns } = this.#space
    if (!turns.isLimitedFirst(queues)) {
      const { jobs, limited } = await this.#claimPlain(request, queues, request.limit)
      turns.saw(queues, limited)
      const left = request.limit - jobs.length
      if (limited.length === 0 || left === 0) return jobs
      return withMore(jobs, () => this.#limited.claim(request, limited, left))
    }
    const straight = queues.length === 1 ? await this.#limited.claimStraight(request, queues[0]!) : undefined
    if (straight !== undefined) return straight
    const { limited, isCalm } = await this.#findLimited(queues)
    turns.saw(queues, limited)
    const jobs = limited.length === 0 ? [] : await this.#limited.claim(request, limited, request.limit)
    // More may fall due or run out: a straight claim would be refused.
    if (!isCalm) this.#space.givers.noteUnease(limited)
    const left = request.limit - jobs.length
    if (left === 0 || limited.length === queues.length) return jobs
    return withMore(jobs, async () => (await this.#claimPlain(request, queues, left)).jobs)
  }

  /** From queues without limits; and which of them have some. */
  async #claimPlain(
    request: ClaimRequest,
    queues: readonly string[],
    limit: number,
  ): Promise<{ readonly jobs: readonly ClaimedRecord[]; readonly limited: readonly string[] }> {
    const { cursors } = this.#space
    const reset = () => cursors.reset(queues, request.kinds)
    const claimed: ClaimedRecord[] = []
    let limited: readonly string[] = []
    // Each look may find leases that ran out meanwhile; a bound, so that a claim always ends.
    for (let looks = 0; looks < 4 && claimed.length < limit; looks++) {
      const from = cursors.from(queues, request.kinds)
      const look = await this.#look(request, queues, limit - claimed.length, from)
      claimed.push(...look.jobs)
      limited = look.limited
      if (look.lapsed.length > 0) {
        await this.#reclaimer.takeBack(look.lapsed, 100_000)
        // For the next look of this claim, and for others once they can see what was taken back.
        reset()
        this.#sender.onCommit(reset)
        continue
      }
      if (from.every((position) => position === start)) break
      if (claimed.length < limit) reset()
    }
    return { jobs: claimed, limited }
  }

  /**
   * Those of the queues that have limits; what fell due or ran out in them is ready by now. Whether nothing did.
   */
  async #findLimited(
    queues: readonly string[],
  ): Promise<{ readonly limited: readonly string[]; readonly isCalm: boolean }> {
    const { namespace, statements, lapses, cursors } = this.#space
    let isCalm = true
    for (let looks = 0; ; looks++) {
      const ignored = lapses.ignored()
      const { rows } = await this.#sender.run<PromoteRow & Record<string, unknown>>(
        statements.claim.promote,
        [namespace, queues, ignored],
      )
      const { lapsed, limited, moved } = rows[0]!
      if (moved) this.#sender.onCommit(() => cursors.forget())
      isCalm &&= !moved && lapsed.length + ignored.length === 0
      if (lapsed.length === 0 || looks === 3) return { limited, isCalm }
      await this.#reclaimer.takeBack(lapsed, 100_000)
      this.#sender.onCommit(() => cursors.forget())
    }
  }

  async #look(
    request: ClaimRequest,
    queues: readonly string[],
    limit: number,
    from: readonly Position[],
  ): Promise<Look> {
    const { namespace, statements, lapses, unrest } = this.#space
    const { claim } = statements
    const nonce = createNonce()
    const ignored = lapses.ignored()
    const valuesFrom = (positions: readonly Position[]) =>
      claimValues(namespace, request, queues, limit, nonce, ignored, positions)
    const promoting = [namespace, queues, ignored]
    const taking: Taking = { request, queues, limit, from, nonce }
    const isOne = queues.length === 1
    if (!unrest.isLikely(queues)) {
      const rows = await this.#sender.useBehind(request.workerId, (client) =>
        this.#sender.sendForArrays<ClaimRow>(
          client,
          isOne ? claim.straightOne : claim.straightMany,
          valuesFrom(from),
        ),
      )
      if (!isRefused(rows)) {
        return { jobs: this.#take(rows, taking), lapsed: [], limited: [] }
      }
      unrest.saw(queues, true)
    }
    const [promoted, claimed] = await this.#sender.useBehind(request.workerId, async (client) => {
      const promote = () =>
        this.#sender.send<PromoteRow & Record<string, unknown>>(client, claim.promote, promoting)
      const claimFrom = (positions: readonly Position[]) =>
        this.#sender.sendForArrays<ClaimRow>(client, isOne ? claim.one : claim.many, valuesFrom(positions))
      if (from.every((position) => position === start || position.isBrief === true))
        return inOnePacket(client, () => bothOf(promote(), claimFrom(from)))
      // What fell due may belong before the remembered places, so they are used only if nothing did.
      const { rows } = await promote()
      const positions = rows[0]?.moved === true ? from.map(() => start) : from
      return [{ rows }, await claimFrom(positions)] as const
    })
    const { moved = true, lapsed = [], limited = [] } = promoted?.rows[0] ?? {}
    unrest.saw(queues, moved || lapsed.length > 0 || limited.length > 0)
    const jobs = this.#take(claimed, taking)
    // What just fell due may belong before the place where this claim began.
    if (jobs.length > 0 && moved)
      this.#sender.onCommit(() => this.#space.cursors.reset(queues, request.kinds))
    return { jobs, lapsed: jobs.length > 0 ? [] : lapsed, limited }
  }

  /** Remembers what a claim took; answers it in order. */
  #take(
    rows: readonly ClaimRow[],
    { request, queues, limit, from, nonce }: Taking,
  ): readonly ClaimedRecord[] {
    const lease = decodeClaimed(rows, nonce, request.workerId)
    if (lease === undefined) return []
    const { leases, cursors } = this.#space
    const jobs = lease.jobs.toSorted(byOrder)
    const isFull = jobs.length === limit
    this.#sender.onCommit(() => {
      leases.remember({ leaseNo: lease.leaseNo, nonce }, lease.jobs, request.leaseMs)
      cursors.took(queues, request.kinds, from, jobs, { tookMs: lease.tookMs, isFull })
    })
    return jobs
  }
}

/** A claim that was sent. */
interface Taking {
  readonly request: ClaimRequest
  readonly queues: readonly string[]
  readonly limit: number
  readonly from: readonly Position[]
  readonly nonce: string
}

interface Look {
  readonly jobs: readonly ClaimedRecord[]
  /** Leases that ran out and may be taken back. */
  readonly lapsed: readonly string[]
  readonly limited: readonly string[]
}

/** Jobs that were taken must be answered, whatever becomes of what comes after them. */
async function withMore(
  jobs: readonly ClaimedRecord[],
  more: () => Promise<readonly ClaimedRecord[]>,
): Promise<readonly ClaimedRecord[]> {
  if (jobs.length === 0) return more()
  return [...jobs, ...(await more().catch(() => []))].sort(byOrder)
}

/**
 * Waits for both. Only the second counts: a claim that took must be answered, or its jobs would lie in a lease that
 * nobody knows of, and what the first could not make ready, the next claim will.
 */
async function bothOf<First, Second>(
  first: Promise<First>,
  second: Promise<Second>,
): Promise<readonly [First | undefined, Second]> {
  const [one, two] = await Promise.allSettled([first, second])
  // In one transaction nothing works behind a statement that failed; the first says why.
  if (two.status === 'rejected' && sqlState(two.reason) === '25P02' && one.status === 'rejected')
    throw one.reason
  if (two.status === 'rejected') throw two.reason
  return [one.status === 'fulfilled' ? one.value : undefined, two.value]
}
