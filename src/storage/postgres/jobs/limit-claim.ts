import type { PoolClient } from 'pg'
import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import { byOrder, chooseLimited } from '../../sql/limit-claim.ts'
import { run } from '../../sql/procedure.ts'
import { createNonce, expiredError } from '../../token.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import { perSchema, type Statement } from '../connection/statement.ts'
import { claimedColumns, decodeClaimedRow, handOut, order } from './hand-out.ts'
import { type PreparedRow, reclaimStatements } from './reclaim.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Claims from queues with limits, with one transaction for each queue and two round trips:
 *
 *     reclaim, make ready; lock the queue's row, choose (sql/limit-claim.ts) ──▶ take chosen jobs, write their starts
 *
 * The claim waits only for the queue's row, at most half a second; then it gets nothing from this queue. It skips jobs
 * that others have locked.
 */
export class LimitClaimer {
  readonly #scope: Scope
  readonly #sender: Sender
  readonly #statements: LimitStatements

  constructor(scope: Scope) {
    this.#scope = scope
    this.#sender = scope.sender
    this.#statements = limitStatements(scope.schemaName)
  }

  /** Claims up to `limit` jobs of these queues, beginning with the queue whose first job comes first. */
  async claim(
    request: ClaimRequest,
    limited: readonly string[],
    limit: number,
  ): Promise<readonly ClaimedRecord[]> {
    const queues = limited.length === 1 ? limited : await this.#listReady(limited)
    if (this.#sender.isOneTransaction) await this.#lockInOrder(queues)
    const claimed: ClaimedRecord[] = []
    for (const queue of queues) {
      if (claimed.length >= limit) break
      try {
        claimed.push(...(await this.#claimFrom(queue, request, limit - claimed.length)))
      } catch (error) {
        // The jobs that are claimed already must be answered.
        if (claimed.length === 0 || this.#sender.isOneTransaction) throw error
        break
      }
    }
    return claimed
  }

  /** Makes due and expired jobs ready, and lists the queues with ready jobs by the order of their first jobs. */
  async #listReady(limited: readonly string[]): Promise<readonly string[]> {
    const { prepare } = reclaimStatements(this.#scope.schemaName)
    await runIn(this.#scope, prepare, limited, expiredError)
    const rows = await runIn<{ queue: string }>(this.#scope, this.#statements.ready, limited)
    return rows.map(({ queue }) => queue)
  }

  /**
   * In one transaction the rows stay locked. Every claim locks them in one order, so that two claims do not deadlock.
   */
  async #lockInOrder(queues: readonly string[]): Promise<void> {
    if (queues.length < 2) return
    for (const queue of queues.toSorted()) {
      await runIn(this.#scope, this.#statements.lock, queue)
    }
  }

  async #claimFrom(queue: string, request: ClaimRequest, limit: number): Promise<readonly ClaimedRecord[]> {
    const take = async () => {
      try {
        const attempt = await this.#sender.allOrNothingWaiting(
          (client, keep) => this.#attempt(client, keep, { queue, request, limit }),
          () => true,
        )
        return attempt
      } catch (error) {
        // Another transaction has locked the row.
        const { cause } = error as { readonly cause?: unknown }
        if ((sqlState(error) ?? sqlState(cause)) === '55P03') return []
        throw error
      }
    }
    // One transaction may have locked the row already. If it waited for its turn, the claim before it would wait for
    // that row.
    if (this.#sender.isOneTransaction) return take()
    return (await this.#scope.limited.inTurn(queue, waitMs, take)) ?? []
  }

  async #attempt(
    client: PoolClient,
    keep: () => void,
    { queue, request: { kinds, workerId, leaseMs }, limit }: QueueClaim,
  ): Promise<readonly ClaimedRecord[]> {
    const { namespace, schemaName, limited, positions, database } = this.#scope
    const isKnown = limited.has(queue)
    const { waitBriefly, take } = this.#statements
    const { prepare } = reclaimStatements(schemaName)
    const [, prepared, choice] = await Promise.all([
      this.#sender.send(client, waitBriefly, []),
      this.#sender.send<PreparedRow>(client, prepare, [namespace, [queue], expiredError]),
      database.runWithin(client, chooseLimited({ namespace, queue, kinds, limit })),
    ])
    if (prepared.rows[0]!.moved) this.#sender.onCommit(() => positions.forget())
    if (isKnown !== choice.isLimited) limited.record(queue, choice.isLimited)
    const nonce = createNonce()
    const values = [namespace, choice.ids, nonce, workerId, leaseMs, choice.now]
    const taking = choice.ids.length === 0 ? [] : this.#sender.sendForTexts(client, take, values)
    const writing = database.runWithin(client, run(...choice.starting()))
    keep()
    const [rows] = await Promise.all([taking, writing])
    return rows
      .map((row) => ({ ...decodeClaimedRow(row, nonce, workerId), limited: true as const }))
      .sort(byOrder)
  }
}

/** How long a claim waits for other claims of this process, and for the row. */
const waitMs = 500

interface QueueClaim {
  readonly queue: string
  readonly request: ClaimRequest
  readonly limit: number
}

interface LimitStatements {
  /** Lists the queues that have jobs, by the order of their first jobs: no claim locks the row of an idle queue. */
  readonly ready: Statement
  readonly lock: Statement
  /** Sets the lock time-out until the transaction ends. */
  readonly waitBriefly: Statement
  readonly take: Statement
}

const limitStatements = perSchema((s): LimitStatements => {
  const waitBriefly = `SELECT set_config('lock_timeout', '${waitMs}ms', true)`
  return {
    ready: {
      name: 'sb_limit_ready',
      text: `
SELECT q.queue FROM unnest((SELECT $2::text[])) q (queue) CROSS JOIN LATERAL (
  SELECT f.* FROM (VALUES (false), (true)) k (has_key) CROSS JOIN LATERAL (
    SELECT p.priority, p.run_at, p.id FROM ${s}.job_queue p
    WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = 'ready' AND (p.limit_key IS NOT NULL) = k.has_key
    ORDER BY ${order} LIMIT 1
  ) f ORDER BY -f.priority::bigint, f.run_at, f.id LIMIT 1
) p
ORDER BY ${order}`,
    },
    lock: {
      name: 'sb_limit_lock',
      text: `
WITH wait AS MATERIALIZED (${waitBriefly} AS ms)
SELECT FROM wait, ${s}.queue_control c WHERE wait.ms IS NOT NULL AND c.namespace = $1 AND c.queue = $2 FOR UPDATE OF c`,
    },
    waitBriefly: { name: 'sb_limit_wait', text: waitBriefly },
    // `started_at` is the time at which the limits were read, because their starts are counted by it. Leases have full
    // length.
    take: {
      name: 'sb_limit_take',
      text: `
WITH picked AS MATERIALIZED (
  SELECT l.place FROM unnest($2::text[]) c (id) CROSS JOIN LATERAL (
    SELECT p.ctid AS place FROM ${s}.job_queue p
    WHERE p.namespace = $1 AND p.id = c.id AND (p.state = 'ready') IS TRUE OFFSET 0 FOR UPDATE SKIP LOCKED) l
),
${handOut(s, {
  ...{ places: 'picked g', nonce: '$3', workerId: '$4' },
  ...{ startedAt: '$6::bigint', leaseMs: '$5', claimer: '1' },
})}
SELECT ${claimedColumns(s)} FROM taken t`,
    },
  }
})
