import type { ClaimedRecord } from '../../../jobs/index.ts'
import { decodeJobRow, type JobRow } from '../../sql/job-row.ts'
import { createNonce, encodeToken } from '../../token.ts'
import { type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { toCancelled } from './history.ts'

/** Hands out jobs whose rows are locked: the last step of every claim. */

/** A ready job's locked row. */
export interface ReadyRow extends JobRow {
  readonly lease_no: number
  readonly sort_rank: number
}

export const readyColumns = `id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
      hand_back_count, snooze_count, run_at, created_at, started_at, NULL AS finished_at, worker_id, lease_ends_at,
      backoff, timeout_ms, meta, NULL AS result, error, FALSE AS cancel_requested, FALSE AS cancel_ignored, lease_no, sort_rank`

/** By priority, due time and id. */
export function byOrder(a: Placed, b: Placed): number {
  return (
    Number(a.sort_rank) - Number(b.sort_rank) ||
    Number(a.run_at) - Number(b.run_at) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
  )
}

export interface Placed {
  readonly id: string
  readonly sort_rank: number | string
  readonly run_at: number | string
}

export interface HandOutOptions {
  readonly workerId: string
  readonly leaseMs: number
  /** Jobs that should have been cancelled: they end here. */
  readonly stray: readonly string[]
  /** By the database's clock. @default the time of the write */
  readonly now?: number
  /** Other statements to send with it. */
  readonly alongside?: readonly Statement[]
}

/** Marks the jobs as running, and commits. */
export async function handOut(
  store: Store,
  call: Call,
  chosen: readonly ReadyRow[],
  { workerId, leaseMs, stray, now: given, alongside = [] }: HandOutOptions,
): Promise<readonly ClaimedRecord[]> {
  const { tables, namespace } = store
  const nonce = createNonce()
  const [, clock] = (await call.packet([
    given === undefined ? [`SET @signalbox_now = ${nowMs}`, []] : ['SET @signalbox_now = ?', [given]],
    ['SELECT @signalbox_now AS now', []],
    ...toCancelled(store, stray),
    [
      `UPDATE ${tables.queue}
          SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, lease_nonce = ?,
            lease_ends_at = @signalbox_now + ?, worker_id = ?, room = '', started_at = @signalbox_now, updated_at = @signalbox_now
          WHERE namespace = ? AND id IN (?)`,
      [nonce, leaseMs, workerId, namespace, chosen.map(({ id }) => id).sort()],
    ],
    ...alongside,
    commit,
  ])) as [unknown, { now: number }[]]
  const now = Number(clock[0]!.now)
  const leaseEndsAt = now + leaseMs
  return chosen.map((row) => ({
    ...decodeJobRow(row),
    state: 'running',
    attempt: row.attempt + 1,
    startedAt: now,
    workerId,
    leaseEndsAt,
    token: encodeToken({ leaseNo: String(row.lease_no + 1), nonce }),
  }))
}
