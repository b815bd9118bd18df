import type { Added, NewJob } from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'

/** Writes down what new jobs wait for; a dependency on a duplicate becomes one on the job that was there. */
export function keepDependencies(
  connection: Connection,
  namespace: string,
  jobs: readonly NewJob[],
  added: readonly Added[],
): void {
  const became = new Map(jobs.map(({ id }, at) => [id, added[at]!.id]))
  for (const [at, { id, dependsOn }] of jobs.entries()) {
    if (!dependsOn || added[at]!.duplicate) continue
    for (const dependencyId of dependsOn.jobs) {
      connection.run(
        'INSERT INTO job_dependency (namespace, job_id, dependency_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING',
        namespace,
        id,
        became.get(dependencyId) ?? dependencyId,
      )
    }
    if (dependsOn.lock === null) continue
    connection.run(
      'INSERT INTO job_lock (namespace, job_id, operation, resource, is_called) VALUES (?1, ?2, ?3, ?4, ?5)',
      namespace,
      id,
      dependsOn.lock.operation,
      dependsOn.lock.resource,
      dependsOn.jobs.length === 0 ? 1 : 0,
    )
  }
}

/** Forgets what these jobs waited for; answers how many rows that were. */
export function forgetDependencies(
  connection: Connection,
  namespace: string,
  ids: readonly string[],
): number {
  const among = 'WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))'
  const wanted = JSON.stringify(ids)
  const dependencies = connection.run(`DELETE FROM job_dependency ${among}`, namespace, wanted)
  return dependencies + connection.run(`DELETE FROM job_lock ${among}`, namespace, wanted)
}
