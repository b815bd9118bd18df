import type { LeaseRef } from '../../../jobs/index.ts'
import { encodeToken } from '../../token.ts'
import type { Moment } from '../connection/connection.ts'

/**
 * Checks leases. A lease is live while its row is `running`, has the token's number and nonce, and ends after the
 * store's clock. Each write checks this inside its own transaction. SQLite has one writer, so nothing changes between
 * the check and the write.
 *
 * In a row that does not run, `lease_nonce` means that the attempt's verdict was written; a lease that was taken back
 * leaves null. `settled_tokens` keeps the last nonces that later claims would overwrite, newest first.
 */
export interface Held {
  readonly row: number
  readonly leaseEndsAt: number
  readonly cancelRequested: boolean
}

type LeaseColumns = readonly [
  id: string,
  row: number,
  leaseNo: number,
  leaseNonce: string,
  leaseEndsAt: number,
  cancelRequested: number,
]

const leaseColumns = `
  SELECT q.id, q.rowid, q.lease_no, q.lease_nonce, q.lease_ends_at,
    ?3 AND EXISTS (SELECT 1 FROM job_cancel c
      WHERE c.namespace = ?1 AND c.job_id = q.id AND c.lease_no = q.lease_no)`
const oneJob = `${leaseColumns}
  FROM job_queue q
  WHERE q.namespace = ?1 AND q.id = ?2 AND q.state = 'running' AND q.lease_ends_at > ?4`
const manyJobs = `${leaseColumns}
  FROM json_each(?2) AS wanted
  CROSS JOIN job_queue q ON q.namespace = ?1 AND q.id = wanted.value
  WHERE q.state = 'running' AND q.lease_ends_at > ?4`

/** Cancellation requests are rare. Without any, the rows need no look-up of their own request. */
function anyCancelled({ connection, namespace }: Moment): number {
  return connection.get<{ any: number }>(
    'SELECT EXISTS (SELECT 1 FROM job_cancel WHERE namespace = ?1) AS any',
    namespace,
  )!.any
}

/** The rows of these leases, in order; undefined for a lost lease. One statement finds them all. */
export function findHeld(moment: Moment, leases: readonly LeaseRef[]): readonly (Held | undefined)[] {
  const { connection, namespace, now } = moment
  const rows =
    leases.length === 1
      ? connection.rows<LeaseColumns>(oneJob, namespace, leases[0]!.jobId, 1, now)
      : connection.rows<LeaseColumns>(
          manyJobs,
          namespace,
          JSON.stringify(leases.map(({ jobId }) => jobId)),
          anyCancelled(moment),
          now,
        )
  const found = new Map<string, { readonly token: string; readonly held: Held }>()
  for (const [id, row, leaseNo, nonce, leaseEndsAt, cancelRequested] of rows) {
    const token = encodeToken({ leaseNo: String(leaseNo), nonce })
    found.set(id, { token, held: { row, leaseEndsAt, cancelRequested: cancelRequested === 1 } })
  }
  return leases.map(({ jobId, token }) => {
    const candidate = found.get(jobId)
    return candidate?.token === token ? candidate.held : undefined
  })
}

/** Extends the lease to `leaseEndsAt`, unless it already lasts longer. */
export function extend({ connection, now }: Moment, held: Held, leaseEndsAt: number): number {
  if (held.leaseEndsAt >= leaseEndsAt) return held.leaseEndsAt
  connection.run(
    'UPDATE job_queue SET lease_ends_at = ?2, updated_at = ?3 WHERE rowid = ?1',
    held.row,
    leaseEndsAt,
    now,
  )
  return leaseEndsAt
}
