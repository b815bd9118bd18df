import type { Connection } from '../connection/connection.ts'

/**
 * The namespaces in which a live job of that queue has a unique key. It goes from namespace to namespace by the index of
 * the keys, two looks each, however many jobs there are.
 */
export function listQueued(connection: Connection, queue: string, limit: number): readonly string[] {
  const sql = `WITH RECURSIVE known (namespace) AS (
       SELECT min(namespace) FROM job_queue INDEXED BY job_queue_unique WHERE unique_key IS NOT NULL
       UNION ALL
       SELECT (SELECT min(namespace) FROM job_queue INDEXED BY job_queue_unique
         WHERE unique_key IS NOT NULL AND namespace > known.namespace)
       FROM known WHERE known.namespace IS NOT NULL)
     SELECT namespace FROM known WHERE EXISTS (SELECT 1 FROM job_queue q INDEXED BY job_queue_unique
       WHERE q.namespace = known.namespace AND q.queue = ?1 AND q.unique_key IS NOT NULL)
     LIMIT ?2`
  return connection.all<{ namespace: string }>(sql, queue, limit).map(({ namespace }) => namespace)
}
