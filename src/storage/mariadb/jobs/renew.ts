import type { LeaseRef, Renewal } from '../../../jobs/index.ts'
import { encodeToken } from '../../token.ts'
import { begin, commit } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * Renews leases. A renewal never waits for a row.
 *
 * It locks with SKIP LOCKED and writes only the rows that it locked. A skipped row may still be live and this
 * worker's in its last committed version. Then another transaction is ending this very attempt (an ack in a user's
 * transaction, a batch of verdicts), because no other statement locks a live lease's row for long. Waiting would stop
 * the heartbeat of all other jobs. Reporting a loss would abort a handler that is about to commit. So the lease counts
 * as kept, with its old end: if the other transaction rolls back, the lease expires at that time.
 */
interface LeaseRow {
  readonly id: string
  readonly lease_no: number
  readonly lease_nonce: string
  readonly lease_ends_at: number
}

const chunk = 1_000

export async function renew(
  store: Store,
  leases: readonly LeaseRef[],
  leaseMs: number,
): Promise<readonly Renewal[]> {
  const renewals: Renewal[] = []
  for (let i = 0; i < leases.length; i += chunk) {
    renewals.push(...(await renewSome(store, leases.slice(i, i + chunk), leaseMs)))
  }
  return renewals
}

async function renewSome(
  { calls, tables, namespace }: Store,
  leases: readonly LeaseRef[],
  leaseMs: number,
): Promise<Renewal[]> {
  const asked = new Set(leases.map(({ jobId, token }) => `${jobId}\n${token}`))
  const ids = [...new Set(leases.map(({ jobId }) => jobId))].sort()
  if (ids.length === 0) return []
  const live = `FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND state = 'running' AND lease_ends_at > ${nowMs}`
  const ours = (row: LeaseRow) => asked.has(`${row.id}\n${tokenOf(row)}`)

  return calls.run('renew leases', async (call) => {
    const [, locked, seen, cancels] = (await call.packet([
      begin,
      [`SELECT id, lease_no, lease_nonce, lease_ends_at ${live} FOR UPDATE SKIP LOCKED`, [namespace, ids]],
      [`SELECT id, lease_no, lease_nonce, lease_ends_at ${live}`, [namespace, ids]],
      [`SELECT job_id AS id FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, ids]],
    ])) as [unknown, LeaseRow[], LeaseRow[], { id: string }[]]
    const mine = new Set(locked.filter(ours).map(({ id }) => id))
    let now = 0
    if (mine.size === 0) {
      await call.packet([commit])
    } else {
      const [, clock] = (await call.packet([
        [`SET @signalbox_now = ${nowMs}`, []],
        ['SELECT @signalbox_now AS now', []],
        [
          `UPDATE ${tables.queue}
            SET lease_ends_at = GREATEST(lease_ends_at, @signalbox_now + ?), updated_at = @signalbox_now
            WHERE namespace = ? AND id IN (?)`,
          [leaseMs, namespace, [...mine].sort()],
        ],
        commit,
      ])) as [unknown, { now: number }[]]
      now = Number(clock[0]!.now)
    }
    const wanted = new Set(cancels.map(({ id }) => id))
    return seen.filter(ours).map((row) => ({
      jobId: row.id,
      token: tokenOf(row),
      leaseEndsAt: mine.has(row.id) ? Math.max(row.lease_ends_at, now + leaseMs) : row.lease_ends_at,
      cancelRequested: wanted.has(row.id),
    }))
  })
}

function tokenOf({ lease_no, lease_nonce }: LeaseRow): string {
  return encodeToken({ leaseNo: String(lease_no), nonce: lease_nonce })
}
