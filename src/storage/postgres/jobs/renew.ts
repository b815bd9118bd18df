import type { AttemptOutcome, LeaseRef, Renewal } from '../../../jobs/index.ts'
import { decodeToken, type Token } from '../../token.ts'
import { nowMs, perSchema } from '../connection/statement.ts'
import { isHeld } from './settle.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Keeping leases, and telling what became of them. No statement waits for a row.
 *
 * A renewal passes over a row that another transaction has locked. If its last committed version is ours and live, that transaction
 * ends this very attempt, as an ack in a user's transaction does. Waiting would stop the heartbeat of every other job; calling the
 * lease lost would abort a handler that is about to commit. So it counts as kept, with the end that it has.
 */
const renewStatements = perSchema((s) => {
  const asked = `
asked AS MATERIALIZED (
  SELECT a.nr::int AS nr, a.id COLLATE "C" AS id, a.lease_no, a.nonce
  FROM unnest($2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY a (id, lease_no, nonce, nr)
)`
  const find = (columns: string, lock = '') => `
  CROSS JOIN LATERAL (
    SELECT ${columns} FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.id = v.id AND ${isHeld} OFFSET 0 ${lock}) f`
  return {
    renew: {
      name: 'sb_renew',
      text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),${asked},
free AS MATERIALIZED (SELECT f.place FROM asked v ${find('q.ctid AS place', 'FOR UPDATE SKIP LOCKED')}),
kept AS (
  UPDATE ${s}.job_queue q
  SET lease_ends_at = greatest(q.lease_ends_at, (SELECT now FROM clock) + $5::bigint), updated_at = (SELECT now FROM clock)
  WHERE q.ctid = ANY (ARRAY (SELECT place FROM free))
  RETURNING q.id
)
SELECT v.nr, CASE WHEN v.id IN (SELECT id FROM kept) THEN greatest(f.lease_ends_at, clock.now + $5::bigint)
                  ELSE f.lease_ends_at END AS ends_at,
       v.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1) AS cancel_requested
FROM clock, asked v ${find('q.lease_ends_at')}`,
    },
    outcomes: {
      name: 'sb_outcomes',
      text: `
WITH ${asked}
SELECT v.nr, CASE WHEN position(' ' || v.lease_no || '.' || v.nonce || ' ' IN ' ' || f.settled || ' ') > 0 THEN 'settled'
                  WHEN f.is_held THEN 'held' ELSE 'lost' END AS outcome
FROM asked v CROSS JOIN LATERAL (
  SELECT coalesce(q.settled_tokens, '') AS settled, ${isHeld} AS is_held
  FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.id = v.id
  UNION ALL
  SELECT concat_ws(' ', h.lease_no || '.' || h.lease_nonce, h.settled_tokens), false
  FROM ${s}.job_history h WHERE h.namespace = $1 AND h.id = v.id
  OFFSET 0) f`,
    },
    cancelRequests: {
      name: 'sb_cancel_requests',
      text: `
WITH ${asked}
SELECT v.nr FROM asked v ${find('1 AS one')}
WHERE v.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1)`,
    },
  }
})

export async function renew(
  scope: Scope,
  refs: readonly LeaseRef[],
  leaseMs: number,
): Promise<readonly Renewal[]> {
  const asked = decode(refs)
  if (asked.length === 0) return []
  const { rows } = await scope.sender.beat<{ nr: number; ends_at: string; cancel_requested: boolean }>(
    renewStatements(scope.schemaName).renew,
    [scope.namespace, ...leasesOf(asked), leaseMs],
    leaseMs,
  )
  return rows.map(({ nr, ends_at: endsAt, cancel_requested: cancelRequested }) => {
    const { ref } = asked[nr - 1]!
    return { jobId: ref.jobId, token: ref.token, leaseEndsAt: Number(endsAt), cancelRequested }
  })
}

/** What became of each attempt. */
export async function outcomes(scope: Scope, refs: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
  const answers: AttemptOutcome[] = refs.map(() => 'lost')
  const asked = decode(refs)
  if (asked.length === 0) return answers
  const statement = renewStatements(scope.schemaName).outcomes
  const rows = await runIn<{ nr: number; outcome: AttemptOutcome }>(scope, statement, ...leasesOf(asked))
  for (const { nr, outcome } of rows) answers[asked[nr - 1]!.at] = outcome
  return answers
}

/** The ids of those jobs for which a cancellation was requested. */
export async function cancelRequests(scope: Scope, refs: readonly LeaseRef[]): Promise<readonly string[]> {
  const asked = decode(refs)
  if (asked.length === 0) return []
  const statement = renewStatements(scope.schemaName).cancelRequests
  const rows = await runIn<{ nr: number }>(scope, statement, ...leasesOf(asked))
  return rows.map(({ nr }) => asked[nr - 1]!.ref.jobId)
}

function leasesOf(asked: readonly Asked[]): unknown[] {
  return [
    asked.map(({ ref }) => ref.jobId),
    asked.map(({ token }) => token.leaseNo),
    asked.map(({ token }) => token.nonce),
  ]
}

interface Asked {
  readonly ref: LeaseRef
  readonly token: Token
  /** Its place in the call. */
  readonly at: number
}

/** Those whose token can be one, in the order of ids. */
function decode(refs: readonly LeaseRef[]): readonly Asked[] {
  return refs
    .flatMap((ref, at) => {
      const token = decodeToken(ref.token)
      return token === undefined ? [] : [{ ref, token, at }]
    })
    .sort((a, b) => (a.ref.jobId < b.ref.jobId ? -1 : 1))
}
