import { Batcher } from '../../../core/batcher.ts'
import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import type { QueuePosition } from '../../sql/claim-positions.ts'
import { createNonce, expiredError } from '../../token.ts'
import { isValueError, sqlState } from '../connection/failures.ts'
import { inOnePacket } from '../connection/pipeline.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import {
  byOrder,
  type ClaimedRow,
  claimedColumns,
  claimedCount,
  claimerOf,
  decodeClaimedRow,
  handOut,
  order,
} from './hand-out.ts'
import { LimitClaimer } from './limit-claim.ts'
import { type PreparedRow, reclaimStatements } from './reclaim.ts'
import type { Scope } from './space.ts'

/**
 * Claims jobs. One statement locks the first ready jobs of the queues without limits, skips rows that others have
 * locked, and leases the jobs. If a job fell due or a lease expired, the statement takes nothing, because those jobs
 * may come first. Then the claimer sends `prepare` (reclaim.ts), which makes them ready, and the claim again, in one
 * packet.
 *
 * Claims of one process with the same queues and kinds share a statement. It takes as many jobs as all of them want,
 * and each claim gets its share under a separate lease. A single claim waits for no other.
 *
 * limit-claim.ts claims from queues with limits. If a claim names queues of both kinds, each kind goes first every
 * other time, so that neither starves the other.
 */
export const claimStatement: (schema: string) => Statement = perSchema((s) => {
  // Each queue has two ranges in the index: jobs without a limit key, and jobs with one. If several ranges have jobs,
  // the claim counts how many of the first jobs are in each range and locks only those. Locking `limit` rows in every
  // range would hide jobs from other claims. Values stand in a SELECT so that the planner keeps one plan for all
  // values.
  const now = '(SELECT now FROM clock)'
  const eligible = `p.namespace = $1 AND p.state = 'ready'
        AND ((SELECT $3::text[]) IS NULL OR p.kind = ANY ((SELECT $3::text[])::text[]))
        AND p.queue = r.queue AND (p.limit_key IS NOT NULL) = r.has_key
        AND ((-p.priority::bigint), p.run_at, p.id) >= ((SELECT $9::bigint), (SELECT $10::bigint), (SELECT $11::text))`
  const firstOf = (state: string, column: string) => `
    SELECT FROM unnest((SELECT $2::text[])) q (queue) CROSS JOIN LATERAL (
      SELECT FROM ${s}.job_queue p
      WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = '${state}' AND p.${column} <= ${now}
      ORDER BY p.${column} LIMIT 1) first`
  return {
    name: 'sb_claim',
    text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now, clock_timestamp() AS began),
control AS MATERIALIZED (
  SELECT c.queue, c.limits IS NOT NULL AND c.paused_at IS NULL AS is_limited FROM ${s}.queue_control c
  WHERE c.namespace = $1 AND c.queue = ANY ((SELECT $2::text[])::text[])
),
first AS MATERIALIZED (
  SELECT CASE WHEN $8::boolean THEN false
    ELSE EXISTS (${firstOf('scheduled', 'run_at')}) OR EXISTS (${firstOf('running', 'lease_ends_at')}) END AS is_so
),
range AS MATERIALIZED (
  SELECT q.queue, k.has_key FROM unnest($2::text[]) q (queue) CROSS JOIN (VALUES (false), (true)) k (has_key)
  WHERE NOT (SELECT is_so FROM first) AND q.queue NOT IN (SELECT queue FROM control)
),
open AS MATERIALIZED (
  SELECT r.queue, r.has_key FROM range r CROSS JOIN LATERAL (SELECT FROM ${s}.job_queue p WHERE ${eligible} LIMIT 1) p
),
best AS MATERIALIZED (
  SELECT r.queue, r.has_key, (SELECT $4::bigint) AS wanted FROM open r WHERE (SELECT count(*) FROM open) = 1
  UNION ALL
  SELECT b.queue, b.has_key, count(*)
  FROM (
    SELECT r.queue, r.has_key
    FROM open r CROSS JOIN LATERAL (
      SELECT p.priority, p.run_at, p.id FROM ${s}.job_queue p WHERE ${eligible} ORDER BY ${order} LIMIT (SELECT $4::bigint)
    ) p
    WHERE (SELECT count(*) FROM open) > 1
    ORDER BY ${order} LIMIT (SELECT $4::bigint)
  ) b
  GROUP BY b.queue, b.has_key
),
picked AS MATERIALIZED (
  SELECT l.place, width_bucket(row_number() OVER (), $12::bigint[]) AS claimer FROM best r CROSS JOIN LATERAL (
    SELECT p.ctid AS place FROM ${s}.job_queue p WHERE ${eligible} ORDER BY ${order} LIMIT r.wanted FOR UPDATE SKIP LOCKED
  ) l
),
${handOut(s, {
  ...{ places: 'picked g', nonce: '($5::text[])[g.claimer]', workerId: '($6::text[])[g.claimer]' },
  ...{ startedAt: now, leaseMs: '($7::bigint[])[g.claimer]', claimer: 'g.claimer' },
})}
SELECT ${claimedColumns(s)} FROM taken t
UNION ALL
-- The last row has the facts of the claim.
SELECT ${'NULL, '.repeat(claimedCount - 1)} json_build_array(
  (SELECT is_so FROM first), ARRAY (SELECT queue FROM control WHERE is_limited),
  extract(epoch FROM clock_timestamp() - (SELECT began FROM clock))::float8 * 1000, ${now})::text`,
  }
})

/** Whether other jobs must be prepared first, which queues have limits, how long the statement took, and the time. */
type ClaimFacts = readonly [
  isRefused: boolean,
  limited: readonly string[],
  tookMs: number | null,
  now: number,
]

/** The position before all jobs. */
const front: QueuePosition = { rank: -(2 ** 40), at: Number.MIN_SAFE_INTEGER, id: '' }

export class Claimer {
  readonly #scope: Scope
  readonly #limits: LimitClaimer
  /** Claims that wait for a statement or have one in flight, by queues and kinds. */
  readonly #groups = new Map<string, Batcher<PendingClaim, ClaimResult>>()

  constructor(scope: Scope) {
    this.#scope = scope
    this.#limits = new LimitClaimer(scope)
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const queues = [...new Set(request.queues)]
    const { limit } = request
    if (queues.length === 0 || limit < 1) return []
    const { limited } = this.#scope
    const known = queues.filter((queue) => limited.has(queue))
    const isAll = known.length === queues.length
    const isFirst = known.length > 0 && (isAll || limited.comeFirst())
    const first = isFirst ? await this.#limits.claim(request, known, limit) : []
    // A queue may have lost its limits meanwhile. The claim from it has recorded that.
    if (first.length >= limit || (isAll && queues.every((queue) => limited.has(queue)))) return first
    return this.#claimRest(first, limit, async (left) => {
      const { jobs, limited: named } = await this.#claimFree(request, queues, left)
      for (const queue of queues) limited.record(queue, named.includes(queue))
      const others = named.filter((queue) => !isFirst || !known.includes(queue))
      if (others.length === 0) return jobs
      return this.#claimRest(jobs, left, (rest) => this.#limits.claim(request, others, rest))
    })
  }

  /** Claims more jobs. If that fails, answers the jobs that are claimed already, unless all is one transaction. */
  async #claimRest(
    jobs: readonly ClaimedRecord[],
    limit: number,
    more: (left: number) => Promise<readonly ClaimedRecord[]>,
  ): Promise<readonly ClaimedRecord[]> {
    if (jobs.length >= limit) return jobs
    try {
      const others = await more(limit - jobs.length)
      return jobs.length === 0 ? others : [...jobs, ...others].sort(byOrder)
    } catch (error) {
      if (jobs.length === 0 || this.#scope.sender.isOneTransaction) throw error
      return jobs
    }
  }

  /** Claims from queues without limits. Answers also which of the queues have limits. */
  async #claimFree(request: ClaimRequest, queues: readonly string[], limit: number): Promise<ClaimResult> {
    const key = JSON.stringify([queues, request.kinds])
    const pending: PendingClaim = { request, limit, nonce: createNonce() }
    const target: ClaimTarget = { key, queues, kinds: request.kinds }
    if (this.#scope.sender.isOneTransaction) return (await this.#claimTogether(target, [pending]))[0]!
    const group = this.#groups.get(key) ?? this.#createGroup(target)
    try {
      return await group.add(pending)
    } finally {
      if (group.isIdle) this.#groups.delete(key)
    }
  }

  /** Two statements may be in flight: while one commits, the database works on the other. */
  #createGroup(target: ClaimTarget): Batcher<PendingClaim, ClaimResult> {
    const group = new Batcher<PendingClaim, ClaimResult>({
      run: (claims) => this.#claimTogether(target, claims),
      maxItems: maxSharedClaims,
      maxInFlight: 2,
      gatherMs: 5,
      isItemError: isValueError,
    })
    this.#groups.set(target.key, group)
    return group
  }

  async #claimTogether(
    target: ClaimTarget,
    claims: readonly PendingClaim[],
  ): Promise<readonly ClaimResult[]> {
    const { positions } = this.#scope
    using search = positions.begin(target.key)
    const from = search.from ?? front
    const direct = await this.#send(target, claims, from, false)
    const seen = direct.isRefused ? await this.#send(target, claims, from, true) : direct
    if (search.from === undefined) search.record({ tookMs: seen.tookMs, now: seen.now, position: seen.last })
    else if (seen.last === undefined) {
      // No job behind the remembered position: there may be jobs before it.
      positions.forget()
      return (await this.#send(target, claims, front, true)).results
    } else search.advance(seen.last)
    return seen.results
  }

  /** Sends the claim. `isPrepared`: sends `prepare` before it, in the same packet. */
  async #send(
    { queues, kinds }: ClaimTarget,
    claims: readonly PendingClaim[],
    from: QueuePosition,
    isPrepared: boolean,
  ): Promise<StatementResult> {
    const { namespace, schemaName, positions, sender } = this.#scope
    const values = [
      ...[namespace, queues, kinds, claims.reduce((sum, { limit }) => sum + limit, 0)],
      claims.map(({ nonce }) => nonce),
      claims.map(({ request }) => request.workerId),
      claims.map(({ request }) => request.leaseMs),
      ...[isPrepared, from.rank, from.at, from.id],
      firstRows(claims),
    ]
    const rows = await sender.use((client) =>
      inOnePacket(client, async () => {
        const preparing = isPrepared
          ? sender.send<PreparedRow>(client, reclaimStatements(schemaName).prepare, [
              namespace,
              queues,
              expiredError,
            ])
          : undefined
        const claiming = sender.sendForTexts(client, claimStatement(schemaName), values)
        const [prepared, claimed] = await Promise.allSettled([preparing, claiming])
        // In one transaction every statement after a failed one fails too: the first error has the reason.
        if (claimed.status === 'rejected') {
          const isConsequence = prepared.status === 'rejected' && sqlState(claimed.reason) === '25P02'
          throw isConsequence ? prepared.reason : claimed.reason
        }
        const becameReady = prepared.status === 'rejected' || prepared.value?.rows[0]?.moved
        if (becameReady) sender.onCommit(() => positions.forget())
        return claimed.value
      }),
    )
    return readClaim(rows, claims)
  }
}

function readClaim(rows: readonly ClaimedRow[], claims: readonly PendingClaim[]): StatementResult {
  const facts = rows.at(-1)!.at(-1)!
  const [isRefused, limited, tookMs, now] = JSON.parse(facts) as ClaimFacts
  const results = claims.map(() => ({ jobs: [] as ClaimedRecord[], limited }))
  for (let at = 0; at < rows.length - 1; at++) {
    const row = rows[at]!
    const { nonce, request } = claims[claimerOf(row) - 1]!
    results[claimerOf(row) - 1]!.jobs.push(decodeClaimedRow(row, nonce, request.workerId))
  }
  let last: ClaimedRecord | undefined
  for (const { jobs } of results) {
    jobs.sort(byOrder)
    const own = jobs.at(-1)
    if (own && (last === undefined || byOrder(last, own) < 0)) last = own
  }
  const position = last && { rank: -last.priority, at: last.runAt, id: last.id }
  return { results, last: position, isRefused, tookMs: tookMs ?? 0, now }
}

/** The number of the first row of each claim, counted from 1. */
function firstRows(claims: readonly PendingClaim[]): readonly number[] {
  let next = 1
  return claims.map(({ limit }) => {
    const first = next
    next += limit
    return first
  })
}

/** The most claims of one statement. */
const maxSharedClaims = 100

/** The queues and kinds of a claim. Claims with equal ones share a statement. */
interface ClaimTarget {
  readonly key: string
  readonly queues: readonly string[]
  readonly kinds: readonly string[] | null
}

/** One claim that waits for its statement. */
interface PendingClaim {
  readonly request: ClaimRequest
  readonly limit: number
  readonly nonce: string
}

/** The answer to one claim. */
interface ClaimResult {
  readonly jobs: readonly ClaimedRecord[]
  /** The queues of the claim that have limits and are not paused. */
  readonly limited: readonly string[]
}

/** The answer of one statement. */
interface StatementResult {
  /** One result for each claim. */
  readonly results: readonly ClaimResult[]
  /** The position of the last claimed job. */
  readonly last: QueuePosition | undefined
  /** A job fell due or a lease expired, so the statement took nothing. */
  readonly isRefused: boolean
  readonly tookMs: number
  readonly now: number
}
