import { Batcher } from '../../../core/batcher.ts'
import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import type { Place } from '../../sql/claim-positions.ts'
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
 * Claiming: one statement locks the best ready jobs of the queues without limits, passing over rows that others have locked, and
 * gives them a lease. While a job fell due or a lease ran out, it takes nothing and answers so: those jobs may go first. Then
 * `prepare` (reclaim.ts) makes them ready and the claim follows it in the same packet.
 *
 * Claims of one process that look for the same share a statement: it takes as many jobs as all of them want, and gives each claim its
 * share under a lease of its own. A claim that comes alone waits for no other.
 *
 * limit-claim.ts claims from queues with limits. Where a claim is over both kinds, each kind goes first every other time, so that
 * neither keeps the other waiting.
 */
export const claimStatement: (schema: string) => Statement = perSchema((s) => {
  // Each queue has two ranges in the index: jobs without a limit key, and jobs with one. Where several ranges have
  // jobs, the claim first counts how many of the best are in which, then locks that many of each: locking `limit` rows in every range
  // would keep others from jobs that are not taken. Values stand in a SELECT so that the planner cannot look at them and plan each claim anew.
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
-- One more row is about the claim itself.
SELECT ${'NULL, '.repeat(claimedCount - 1)} json_build_array(
  (SELECT is_so FROM first), ARRAY (SELECT queue FROM control WHERE is_limited),
  extract(epoch FROM clock_timestamp() - (SELECT began FROM clock))::float8 * 1000, ${now})::text`,
  }
})

/** Whether something goes first, which queues have limits, how long the claim took, and the time. */
type AboutClaim = readonly [
  isRefused: boolean,
  limited: readonly string[],
  tookMs: number | null,
  now: number,
]

/** Before every job there can be. */
const front: Place = { rank: -(2 ** 40), at: Number.MIN_SAFE_INTEGER, id: '' }

export class Claimer {
  readonly #scope: Scope
  readonly #limits: LimitClaimer
  /** Claims that wait for a statement or have one under way, by what they look for. */
  readonly #groups = new Map<string, Batcher<Ask, Look>>()

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
    // A queue may have lost its limits meanwhile, which the claim from it has noted.
    if (first.length >= limit || (isAll && queues.every((queue) => limited.has(queue)))) return first
    return this.#andMore(first, limit, async (left) => {
      const { jobs, limited: named } = await this.#claimFree(request, queues, left)
      for (const queue of queues) limited.record(queue, named.includes(queue))
      const others = named.filter((queue) => !isFirst || !known.includes(queue))
      if (others.length === 0) return jobs
      return this.#andMore(jobs, left, (rest) => this.#limits.claim(request, others, rest))
    })
  }

  /** Jobs that were taken must be answered, even if the claim of more fails; unless all of it is one transaction. */
  async #andMore(
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

  /** Claims from queues without limits; answers also which of the queues have limits. */
  async #claimFree(request: ClaimRequest, queues: readonly string[], limit: number): Promise<Look> {
    const key = JSON.stringify([queues, request.kinds])
    const ask: Ask = { request, limit, nonce: createNonce() }
    const sought: Sought = { key, queues, kinds: request.kinds }
    if (this.#scope.sender.isOneTransaction) return (await this.#claimTogether(sought, [ask]))[0]!
    const group = this.#groups.get(key) ?? this.#createGroup(sought)
    try {
      return await group.add(ask)
    } finally {
      if (group.isIdle) this.#groups.delete(key)
    }
  }

  /** Two statements may be under way: while one commits, the database works on the other. */
  #createGroup(sought: Sought): Batcher<Ask, Look> {
    const group = new Batcher<Ask, Look>({
      run: (asks) => this.#claimTogether(sought, asks),
      maxItems: mostClaimers,
      maxInFlight: 2,
      isItemError: isValueError,
    })
    this.#groups.set(sought.key, group)
    return group
  }

  async #claimTogether(sought: Sought, asks: readonly Ask[]): Promise<readonly Look[]> {
    const { positions } = this.#scope
    using look = positions.begin(sought.key)
    const from = look.from ?? front
    const straight = await this.#send(sought, asks, from, false)
    const seen = straight.isRefused ? await this.#send(sought, asks, from, true) : straight
    if (look.from === undefined) look.record({ tookMs: seen.tookMs, now: seen.now, place: seen.last })
    else if (seen.last === undefined) {
      // Nothing from the middle of the queue on: there may be jobs before it.
      positions.forget()
      return (await this.#send(sought, asks, front, true)).looks
    } else look.advance(seen.last)
    return seen.looks
  }

  /** `isPrepared`: what goes first is made ready, in the same packet. */
  async #send(
    { queues, kinds }: Sought,
    asks: readonly Ask[],
    from: Place,
    isPrepared: boolean,
  ): Promise<Seen> {
    const { namespace, schemaName, positions, sender } = this.#scope
    const values = [
      ...[namespace, queues, kinds, asks.reduce((sum, { limit }) => sum + limit, 0)],
      asks.map(({ nonce }) => nonce),
      asks.map(({ request }) => request.workerId),
      asks.map(({ request }) => request.leaseMs),
      ...[isPrepared, from.rank, from.at, from.id],
      firstRows(asks),
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
        // In one transaction nothing works behind a statement that failed; the first says why.
        if (claimed.status === 'rejected') {
          const isBehind = prepared.status === 'rejected' && sqlState(claimed.reason) === '25P02'
          throw isBehind ? prepared.reason : claimed.reason
        }
        const isMoved = prepared.status === 'rejected' || prepared.value?.rows[0]?.moved
        if (isMoved) sender.onCommit(() => positions.forget())
        return claimed.value
      }),
    )
    return readClaim(rows, asks)
  }
}

function readClaim(rows: readonly ClaimedRow[], asks: readonly Ask[]): Seen {
  const about = rows.at(-1)!.at(-1)!
  const [isRefused, limited, tookMs, now] = JSON.parse(about) as AboutClaim
  const looks = asks.map(() => ({ jobs: [] as ClaimedRecord[], limited }))
  for (let at = 0; at < rows.length - 1; at++) {
    const row = rows[at]!
    const { nonce, request } = asks[claimerOf(row) - 1]!
    looks[claimerOf(row) - 1]!.jobs.push(decodeClaimedRow(row, nonce, request.workerId))
  }
  let last: ClaimedRecord | undefined
  for (const { jobs } of looks) {
    jobs.sort(byOrder)
    const own = jobs.at(-1)
    if (own && (last === undefined || byOrder(last, own) < 0)) last = own
  }
  const place = last && { rank: -last.priority, at: last.runAt, id: last.id }
  return { looks, last: place, isRefused, tookMs: tookMs ?? 0, now }
}

/** The number of each claimer's first row, counted from 1. */
function firstRows(asks: readonly Ask[]): readonly number[] {
  let next = 1
  return asks.map(({ limit }) => {
    const first = next
    next += limit
    return first
  })
}

/** The most claims of one statement. */
const mostClaimers = 100

/** What claims must have in common to share a statement. */
interface Sought {
  readonly key: string
  readonly queues: readonly string[]
  readonly kinds: readonly string[] | null
}

/** One claim. */
interface Ask {
  readonly request: ClaimRequest
  readonly limit: number
  readonly nonce: string
}

/** What one claim got. */
interface Look {
  readonly jobs: readonly ClaimedRecord[]
  /** Those of the queues that have limits and are not paused. */
  readonly limited: readonly string[]
}

/** What a statement answers. */
interface Seen {
  /** For each claim. */
  readonly looks: readonly Look[]
  /** The place of the last job that was taken. */
  readonly last: Place | undefined
  /** A job fell due or a lease ran out, so nothing was taken. */
  readonly isRefused: boolean
  readonly tookMs: number
  readonly now: number
}
