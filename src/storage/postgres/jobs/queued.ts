import type { Connections } from '../connection/connection.ts'

/**
 * The namespaces in which a live job of that queue has a unique key. It goes from namespace to namespace by the index of
 * the keys, two looks each, however many jobs there are. `s` is the schema's name, quoted.
 */
export async function listQueued(
  connections: Connections,
  s: string,
  queue: string,
  limit: number,
): Promise<readonly string[]> {
  const text = `
WITH RECURSIVE known (namespace) AS (
  (SELECT namespace FROM ${s}.job_unique ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT u.namespace FROM ${s}.job_unique u WHERE u.namespace > known.namespace ORDER BY u.namespace LIMIT 1)
  FROM known WHERE known.namespace IS NOT NULL
)
SELECT namespace FROM known
WHERE EXISTS (SELECT FROM ${s}.job_unique u WHERE u.namespace = known.namespace AND u.queue = $1)
LIMIT $2`
  const { rows } = await connections.run<{ namespace: string }>({ name: 'sb_queued', text }, [queue, limit])
  return rows.map((row) => row.namespace)
}
