import type { LeaseRef, Renewal } from '../../../jobs/index.ts'
import { decodeToken, type Token } from '../../token.ts'
import { nowMs, perSchema } from '../connection/statement.ts'
import { isHeld } from './settle.ts'
import type { Scope } from './space.ts'

/**
 * Renews leases. A renewal never waits for a row.
 *
 * It skips a row that another transaction has locked. If the committed row still has this lease, that
 * transaction ends this attempt, for example an ack in a user's transaction. Waiting would delay the renewal of every
 * other job. Answering `lost` would abort a handler that is about to commit. So the lease counts as renewed and keeps
 * its present end.
 */
const renewStatements = perSchema((s) => {
  const leases = `
leases AS MATERIALIZED (
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
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),${leases},
free AS MATERIALIZED (SELECT f.place FROM leases v ${find('q.ctid AS place', 'FOR UPDATE SKIP LOCKED')}),
kept AS (
  UPDATE ${s}.job_queue q
  SET lease_ends_at = greatest(q.lease_ends_at, (SELECT now FROM clock) + $5::bigint), updated_at = (SELECT now FROM clock)
  WHERE q.ctid = ANY (ARRAY (SELECT place FROM free))
  RETURNING q.id
)
SELECT v.nr, CASE WHEN v.id IN (SELECT id FROM kept) THEN greatest(f.lease_ends_at, clock.now + $5::bigint)
                  ELSE f.lease_ends_at END AS ends_at,
       v.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1) AS cancel_requested
FROM clock, leases v ${find('q.lease_ends_at')}`,
    },
  }
})

export async function renew(
  scope: Scope,
  refs: readonly LeaseRef[],
  leaseMs: number,
): Promise<readonly Renewal[]> {
  const leases = decode(refs)
  if (leases.length === 0) return []
  const { rows } = await scope.sender.runRenewal<{ nr: number; ends_at: string; cancel_requested: boolean }>(
    renewStatements(scope.schemaName).renew,
    [scope.namespace, ...leaseValues(leases), leaseMs],
    leaseMs,
  )
  return rows.map(({ nr, ends_at: endsAt, cancel_requested: cancelRequested }) => {
    const { ref } = leases[nr - 1]!
    return { jobId: ref.jobId, token: ref.token, leaseEndsAt: Number(endsAt), cancelRequested }
  })
}

function leaseValues(leases: readonly NumberedLease[]): unknown[] {
  return [
    leases.map(({ ref }) => ref.jobId),
    leases.map(({ token }) => token.leaseNo),
    leases.map(({ token }) => token.nonce),
  ]
}

interface NumberedLease {
  readonly ref: LeaseRef
  readonly token: Token
  /** The index of the lease in the call. */
  readonly at: number
}

/** The leases with a well-formed token, in the order of ids. */
function decode(refs: readonly LeaseRef[]): readonly NumberedLease[] {
  return refs
    .flatMap((ref, at) => {
      const token = decodeToken(ref.token)
      return token === undefined ? [] : [{ ref, token, at }]
    })
    .sort((a, b) => (a.ref.jobId < b.ref.jobId ? -1 : 1))
}
