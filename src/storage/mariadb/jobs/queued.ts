import type { Store } from '../engine-store.ts'

/**
 * The namespaces in which a live job of that queue has a unique key. The grouping goes from namespace to namespace by
 * the index of the keys, and each is looked up there, however many jobs there are. A subquery that is compared, because
 * MariaDB makes a join of EXISTS and reads far more.
 */
export function listQueued(
  { calls, tables }: Pick<Store, 'calls' | 'tables'>,
  queue: string,
  limit: number,
): Promise<readonly string[]> {
  return calls.run('read', async (call) => {
    const rows = await call.rows<{ namespace: string }>(
      `SELECT namespace FROM (
          SELECT namespace FROM ${tables.queue} FORCE INDEX (job_queue_unique) GROUP BY namespace) known
        WHERE (SELECT 1 FROM ${tables.queue} q FORCE INDEX (job_queue_unique)
          WHERE q.namespace = known.namespace AND q.queue = ? AND q.unique_key IS NOT NULL LIMIT 1) = 1
        ORDER BY namespace LIMIT ?`,
      [queue, limit],
    )
    return rows.map((row) => row.namespace)
  })
}
