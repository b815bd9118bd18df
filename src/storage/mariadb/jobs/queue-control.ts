import type { QueueLimits } from '../../../jobs/index.ts'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * The settings of a queue: its pause, and its limits. A queue without settings has no row, and every claim checks that.
 * A claim within limits locks the row until it commits, so these calls may wait for one.
 */
export async function pause({ calls, tables, namespace }: Store, queue: string): Promise<void> {
  await calls.run('pause a queue', (call) =>
    call.rows(
      `INSERT INTO ${tables.control} (namespace, queue, paused_at) VALUES (?, ?, ${nowMs})
        ON DUPLICATE KEY UPDATE paused_at = COALESCE(paused_at, VALUES(paused_at))`,
      [namespace, queue],
    ),
  )
}

export function resume(store: Store, queue: string): Promise<void> {
  return lift(store, queue, 'resume a queue', 'paused_at = NULL')
}

/** Implements JobStore.limit. Running jobs are counted from their own rows, so no counter needs an update. */
export async function limit(store: Store, queue: string, limits: QueueLimits | null): Promise<void> {
  const { calls, tables, namespace } = store
  if (limits === null) {
    const forget = [
      `DELETE FROM ${tables.rate} WHERE namespace = ? AND queue = ?`,
      [namespace, queue],
    ] as const
    return lift(store, queue, 'lift the limits of a queue', 'limits = NULL, key_position = NULL', [forget])
  }
  await calls.run('limit a queue', (call) =>
    call.rows(
      `INSERT INTO ${tables.control} (namespace, queue, limits) VALUES (?, ?, ?)
        ON DUPLICATE KEY UPDATE limits = VALUES(limits)`,
      [namespace, queue, JSON.stringify(limits)],
    ),
  )
}

/** Removes one of the two settings, and deletes the row if the other one is not set either. */
async function lift(
  { calls, tables, namespace }: Store,
  queue: string,
  doing: string,
  lifted: string,
  alongside: readonly Statement[] = [],
): Promise<void> {
  await calls.run(doing, (call) =>
    call.packet([
      begin,
      [`UPDATE ${tables.control} SET ${lifted} WHERE namespace = ? AND queue = ?`, [namespace, queue]],
      [
        `DELETE FROM ${tables.control} WHERE namespace = ? AND queue = ? AND paused_at IS NULL AND limits IS NULL`,
        [namespace, queue],
      ],
      ...alongside,
      commit,
    ]),
  )
}
