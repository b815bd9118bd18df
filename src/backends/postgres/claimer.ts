import type { ClaimedRecord, ClaimRequest, NewJob } from '../../jobs/index.ts'
import { createNonce } from '../token.ts'
import {
  byOrder,
  type ClaimRow,
  type ClaimStatements,
  claimStatements,
  claimValues,
  decodeClaimed,
  type PromoteRow,
} from './claim.ts'
import type { Connections } from './connection.ts'
import { Cursor, type Position, start } from './cursor.ts'
import type { Leases } from './leases.ts'
import type { Reclaimer } from './reclaim.ts'

/**
 * Runs claims: one round trip when all is well; another when a lease ran out (take it back first, its jobs may be the
 * best) or when a claim from the cursor came short (look from the start).
 */
export class Claimer {
  readonly #connections: Connections
  readonly #statements: ClaimStatements
  readonly #namespace: string
  readonly #leases: Leases
  readonly #reclaimer: Reclaimer
  /**
   * By queue and kinds: whoever wants other kinds has not seen what this one passed over. Forgotten altogether when
   * there are too many: queue names may come and go.
   */
  readonly #cursors = new Map<string, { readonly queue: string; readonly cursor: Cursor }>()

  constructor(connections: Connections, s: string, namespace: string, leases: Leases, reclaimer: Reclaimer) {
    this.#connections = connections
    this.#statements = claimStatements(s)
    this.#namespace = namespace
    this.#leases = leases
    this.#reclaimer = reclaimer
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const queues = [...new Set(request.queues)]
    if (queues.length === 0 || request.limit <= 0) return []
    const cursorOf = (queue: string) => this.#cursors.get(keyOf(queue, request.kinds))?.cursor
    const claimed: ClaimedRecord[] = []
    // Each look may find leases that ran out meanwhile; a bound, so that a claim always ends.
    for (let looks = 0; looks < 4 && claimed.length < request.limit; looks++) {
      const now = performance.now()
      const from = queues.map((queue) => cursorOf(queue)?.from(now) ?? start)
      const { jobs, lapsed } = await this.#look(request, queues, request.limit - claimed.length, from)
      claimed.push(...jobs)
      if (lapsed.length > 0) {
        await this.#reclaimer.takeBack(lapsed, 100_000)
        for (const queue of queues) cursorOf(queue)?.reset()
        continue
      }
      if (from.every((position) => position === start)) break
      if (claimed.length < request.limit) for (const queue of queues) cursorOf(queue)?.reset()
    }
    return claimed
  }

  /** Something went back in line, perhaps before a remembered place. */
  forget(): void {
    this.#cursors.clear()
  }

  added(jobs: readonly NewJob[]): void {
    if (this.#cursors.size === 0) return
    for (const { queue, cursor } of this.#cursors.values()) {
      for (const job of jobs) if (job.queue === queue) cursor.added(job)
    }
  }

  async #look(
    request: ClaimRequest,
    queues: readonly string[],
    limit: number,
    from: readonly Position[],
  ): Promise<{ jobs: readonly ClaimedRecord[]; lapsed: readonly string[] }> {
    const nonce = createNonce()
    const ignored = this.#reclaimer.ignored()
    const statement = queues.length === 1 ? this.#statements.one : this.#statements.many
    const valuesFrom = (positions: readonly Position[]) =>
      claimValues(this.#namespace, request, queues, limit, nonce, ignored, positions)
    const [promoted, claimed] = await this.#connections.use(async (client) => {
      const promoting = this.#connections.send<PromoteRow & Record<string, unknown>>(
        client,
        this.#statements.promote,
        [this.#namespace, queues],
      )
      const claimFrom = (positions: readonly Position[]) =>
        this.#connections.sendForArrays<ClaimRow>(client, statement, valuesFrom(positions))
      if (from.every((position) => position === start)) return bothOf(promoting, claimFrom(from))
      // What fell due may belong before the remembered places, so they are used only if nothing did.
      const { rows } = await promoting
      const positions = rows[0]?.moved === true ? from.map(() => start) : from
      return [{ rows }, await claimFrom(positions)] as const
    })
    const lease = decodeClaimed(claimed, nonce, request.workerId)
    if (lease) {
      this.#leases.remember({ leaseNo: lease.leaseNo, nonce }, lease.jobs, request.leaseMs)
      const jobs = lease.jobs.toSorted(byOrder)
      this.#note(request.kinds, queues, from, jobs, lease.tookMs)
      return { jobs, lapsed: [] }
    }
    return {
      jobs: [],
      lapsed: (promoted?.rows[0]?.lapsed ?? []).filter((leaseNo) => !ignored.includes(leaseNo)),
    }
  }

  #note(
    kinds: readonly string[] | null,
    queues: readonly string[],
    from: readonly Position[],
    jobs: readonly ClaimedRecord[],
    tookMs: number,
  ): void {
    const now = performance.now()
    if (this.#cursors.size > 1_000) this.#cursors.clear()
    for (const [nr, queue] of queues.entries()) {
      const ofQueue = queues.length === 1 ? jobs : jobs.filter((job) => job.queue === queue)
      if (ofQueue.length === 0) continue
      const key = keyOf(queue, kinds)
      const { cursor } = this.#cursors.get(key) ?? { cursor: new Cursor() }
      this.#cursors.set(key, { queue, cursor })
      cursor.took(from[nr]!, ofQueue, tookMs, now)
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
  if (two.status === 'rejected') throw two.reason
  return [one.status === 'fulfilled' ? one.value : undefined, two.value]
}

function keyOf(queue: string, kinds: readonly string[] | null): string {
  return JSON.stringify([queue, kinds])
}
