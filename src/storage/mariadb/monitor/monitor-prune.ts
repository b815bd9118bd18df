import { rowCount } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/** MonitorStore.prune: each table by the index on what its rows' age is counted from. */
export async function prune(
  { calls, tables, namespace }: Store,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<number> {
  const { decision, notification, window, silence } = tables.monitor
  const old: readonly (readonly [table: string, over: string])[] = [
    [decision, 'decided_at'],
    [notification, 'finished_at'],
    [window, "status = 'notified' AND ends_at"],
    [silence, 'ends_at'],
  ]
  let pruned = 0
  for (const [table, over] of old) {
    let left = limit
    while (left > 0) {
      const most = Math.min(1_000, left)
      const count = await calls.run('forget decisions', async (call) => {
        const [gone] = await call.packet([
          [
            `DELETE FROM ${table} WHERE namespace = ? AND ${over} < ${nowMs} - ? LIMIT ?`,
            [namespace, olderThanMs, most],
          ],
        ])
        return rowCount(gone)
      })
      pruned += count
      left -= count
      if (count < most) break
    }
  }
  return pruned
}
