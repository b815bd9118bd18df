import type { ClaimedRecord, ClaimRequest } from '../../jobs/index.ts'
import { createNonce } from '../token.ts'
import { byOrder, type ClaimRow, claimValues, decodeClaimed, type PromoteRow } from './claim.ts'
import { type Position, start } from './cursor.ts'
import { sqlState } from './failures.ts'
import type { Reclaimer } from './reclaim.ts'
import type { Sender } from './sender.ts'
import type { Space } from './space.ts'

/**
 * Runs claims: one round trip when all is well; another when a lease ran out (take it back first, its jobs may be the
 * best) or when a claim from the cursor came short (look from the start).
 */
export class Claimer {
  readonly #sender: Sender
  readonly #space: Space
  readonly #reclaimer: Reclaimer

  constructor(sender: Sender, space: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#space = space
    this.#reclaimer = reclaimer
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const queues = [...new Set(request.queues)]
    if (queues.length === 0 || request.limit <= 0) return []
    const { cursors } = this.#space
    const reset = () => cursors.reset(queues, request.kinds)
    const claimed: ClaimedRecord[] = []
    // Each look may find leases that ran out meanwhile; a bound, so that a claim always ends.
    for (let looks = 0; looks < 4 && claimed.length < request.limit; looks++) {
      const from = cursors.from(queues, request.kinds)
      const { jobs, lapsed } = await this.#look(request, queues, request.limit - claimed.length, from)
      claimed.push(...jobs)
      if (lapsed.length > 0) {
        await this.#reclaimer.takeBack(lapsed, 100_000)
        // For the next look of this claim, and for others once they can see what was taken back.
        reset()
        this.#sender.onCommit(reset)
        continue
      }
      if (from.every((position) => position === start)) break
      if (claimed.length < request.limit) reset()
    }
    return claimed
  }

  async #look(
    request: ClaimRequest,
    queues: readonly string[],
    limit: number,
    from: readonly Position[],
  ): Promise<{ jobs: readonly ClaimedRecord[]; lapsed: readonly string[] }> {
    const { namespace, statements, leases, cursors, lapses } = this.#space
    const nonce = createNonce()
    const ignored = lapses.ignored()
    const statement = queues.length === 1 ? statements.claim.one : statements.claim.many
    const valuesFrom = (positions: readonly Position[]) =>
      claimValues(namespace, request, queues, limit, nonce, ignored, positions)
    const [promoted, claimed] = await this.#sender.use(async (client) => {
      const promoting = this.#sender.send<PromoteRow & Record<string, unknown>>(
        client,
        statements.claim.promote,
        [namespace, queues],
      )
      const claimFrom = (positions: readonly Position[]) =>
        this.#sender.sendForArrays<ClaimRow>(client, statement, valuesFrom(positions))
      if (from.every((position) => position === start)) return bothOf(promoting, claimFrom(from))
      // What fell due may belong before the remembered places, so they are used only if nothing did.
      const { rows } = await promoting
      const positions = rows[0]?.moved === true ? from.map(() => start) : from
      return [{ rows }, await claimFrom(positions)] as const
    })
    const lease = decodeClaimed(claimed, nonce, request.workerId)
    if (lease) {
      const jobs = lease.jobs.toSorted(byOrder)
      this.#sender.onCommit(() => {
        leases.remember({ leaseNo: lease.leaseNo, nonce }, lease.jobs, request.leaseMs)
        cursors.took(queues, request.kinds, from, jobs, lease.tookMs)
      })
      return { jobs, lapsed: [] }
    }
    return {
      jobs: [],
      lapsed: (promoted?.rows[0]?.lapsed ?? []).filter((leaseNo) => !ignored.includes(leaseNo)),
    }
  }
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
