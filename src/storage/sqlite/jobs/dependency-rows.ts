import type { Added, NewJob } from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'

/** Writes down what new jobs wait for; a need for a job that came to a duplicate is one for the job that was there. */
export function keepGates(
  connection: Connection,
  namespace: string,
  jobs: readonly NewJob[],
  added: readonly Added[],
): void {
  const became = new Map(jobs.map(({ id }, at) => [id, added[at]!.id]))
  for (const [at, { id, gate }] of jobs.entries()) {
    if (!gate || added[at]!.duplicate) continue
    for (const needsId of gate.needs) {
      connection.run(
        'INSERT INTO job_need (namespace, job_id, needs_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING',
        namespace,
        id,
        became.get(needsId) ?? needsId,
      )
    }
    if (gate.lock === null) continue
    connection.run(
      'INSERT INTO job_lock (namespace, job_id, operation, resource, is_called) VALUES (?1, ?2, ?3, ?4, ?5)',
      namespace,
      id,
      gate.lock.operation,
      gate.lock.resource,
      gate.needs.length === 0 ? 1 : 0,
    )
  }
}

/** Forgets what these jobs waited for; answers how many rows that were. */
export function forgetGates(connection: Connection, namespace: string, ids: readonly string[]): number {
  const among = 'WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))'
  const wanted = JSON.stringify(ids)
  const needs = connection.run(`DELETE FROM job_need ${among}`, namespace, wanted)
  return needs + connection.run(`DELETE FROM job_lock ${among}`, namespace, wanted)
}
