import type {
  Dependency,
  DependencyQuery,
  Fence,
  JobState,
  Neighbour,
  Neighbours,
} from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'
import { lapsesTo } from './lapse.ts'

/** A job as far as dependencies are concerned. */
export interface SeenJob {
  readonly state: JobState
  readonly dueInMs: number
}

interface StateRow {
  readonly state: JobState
  readonly run_at: number
  readonly lease_ends_at: number | null
  readonly attempt: number
  readonly max_attempts: number
  readonly cancel_requested: number
}

/** How these jobs stand at `now`, in order; undefined: there is no such job. */
export function readStates(
  connection: Connection,
  namespace: string,
  ids: readonly string[],
  now: number,
): readonly (SeenJob | undefined)[] {
  return ids.map((id) => {
    const row = connection.get<StateRow>(
      `SELECT state, run_at, lease_ends_at, attempt, max_attempts,
         EXISTS (SELECT 1 FROM job_cancel c
           WHERE c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no) AS cancel_requested
       FROM job_queue q WHERE namespace = ?1 AND id = ?2
       UNION ALL
       SELECT state, run_at, NULL, 0, 0, 0 FROM job_history WHERE namespace = ?1 AND id = ?2`,
      namespace,
      id,
    )
    return row && { state: judge(row, now), dueInMs: Math.max(0, row.run_at - now) }
  })
}

/** As `find` would tell it. */
function judge(row: StateRow, now: number): JobState {
  if (row.state === 'scheduled' && row.run_at <= now) return 'ready'
  if (row.state === 'running' && row.lease_ends_at! <= now) return lapsesTo(row)
  return row.state
}

export function listUnmet(
  connection: Connection,
  namespace: string,
  { of, after, limit }: DependencyQuery,
): readonly Dependency[] {
  if (of !== undefined) {
    const sql = `SELECT job_id AS jobId, dependency_id AS dependencyId FROM job_dependency INDEXED BY job_dependency_dependents
       WHERE namespace = ?1 AND dependency_id IN (SELECT value FROM json_each(?2)) AND is_met = 0
       ORDER BY job_id, dependency_id LIMIT ?3`
    return connection.all<Dependency>(sql, namespace, JSON.stringify(of), limit).map(toDependency)
  }
  const sql = `SELECT job_id AS jobId, dependency_id AS dependencyId FROM job_dependency INDEXED BY job_dependency_unmet
     WHERE namespace = ?1 AND is_met = 0 AND (job_id, dependency_id) > (?2, ?3)
     ORDER BY job_id, dependency_id LIMIT ?4`
  const { jobId, dependencyId } = after ?? { jobId: '', dependencyId: '' }
  return connection.all<Dependency>(sql, namespace, jobId, dependencyId, limit).map(toDependency)
}

/** What SQLite gives has no prototype; what is compared should. */
function toDependency({ jobId, dependencyId }: Dependency): Dependency {
  return { jobId, dependencyId }
}

export function readNeighbours(
  connection: Connection,
  namespace: string,
  id: string,
  limit: number,
  now: number,
): Neighbours {
  const neighbours = (sql: string): readonly Neighbour[] => {
    const rows = connection.all<{ id: string; is_met: number }>(sql, namespace, id, limit)
    const ids = rows.map((row) => row.id)
    const jobs = readStates(connection, namespace, ids, now)
    return rows.map((row, at) => ({ id: row.id, state: jobs[at]?.state, isMet: row.is_met === 1 }))
  }
  return {
    dependencies: neighbours(
      `SELECT dependency_id AS id, is_met FROM job_dependency
       WHERE namespace = ?1 AND job_id = ?2 ORDER BY dependency_id LIMIT ?3`,
    ),
    dependents: neighbours(
      `SELECT job_id AS id, is_met FROM job_dependency
       WHERE namespace = ?1 AND dependency_id = ?2 ORDER BY job_id LIMIT ?3`,
    ),
  }
}

export function readFences(
  connection: Connection,
  namespace: string,
  ids: readonly string[],
): readonly (Fence | undefined)[] {
  return ids.map((id) => {
    const sql = 'SELECT ask_no, fence FROM job_lock WHERE namespace = ?1 AND job_id = ?2'
    const row = connection.get<{ ask_no: number; fence: number | null }>(sql, namespace, id)
    return row && { askNo: row.ask_no, fence: row.fence }
  })
}

/** Whether a dependsOn is to be tended; asked of a reader, so that an idle keeper never needs the writer. */
export function mayTend(connection: Connection, namespace: string, now: number): boolean {
  const sql = `SELECT 1 FROM job_lock
     WHERE namespace = ?1 AND is_called = 1 AND tended_until <= ?2 LIMIT 1`
  return connection.get(sql, namespace, now) !== undefined
}

export function hasCalled(connection: Connection, namespace: string): boolean {
  const sql = 'SELECT 1 FROM job_lock WHERE namespace = ?1 AND is_called = 1 LIMIT 1'
  return connection.get(sql, namespace) !== undefined
}

/** Up to `limit` jobs behind this one that depend on others or a lock, by id. */
export function listGated(
  connection: Connection,
  namespace: string,
  after: string,
  limit: number,
): readonly string[] {
  const sql = `SELECT job_id AS id FROM job_dependency WHERE namespace = ?1 AND job_id > ?2
     UNION
     SELECT job_id FROM job_lock WHERE namespace = ?1 AND job_id > ?2
     ORDER BY 1 LIMIT ?3`
  return connection.all<{ id: string }>(sql, namespace, after, limit).map(({ id }) => id)
}

/** The namespaces in which a job waits for another, or stands in a line or holds its lock. */
export function listGatedNamespaces(connection: Connection, limit: number): readonly string[] {
  const sql = `WITH RECURSIVE ${leaps('needing', 'job_dependency INDEXED BY job_dependency_unmet', 'is_met = 0')},
       ${leaps('locked', 'job_lock INDEXED BY job_lock_tended', 'is_called = 1')}
     SELECT namespace FROM needing WHERE namespace IS NOT NULL
     UNION
     SELECT namespace FROM locked WHERE namespace IS NOT NULL
     ORDER BY 1 LIMIT ?1`
  return connection.all<{ namespace: string }>(sql, limit).map(({ namespace }) => namespace)
}

/** From namespace to namespace along an index, whatever stands in each. */
function leaps(name: string, from: string, where: string): string {
  return `${name} (namespace) AS (
       SELECT min(namespace) FROM ${from} WHERE ${where}
       UNION ALL
       SELECT (SELECT min(namespace) FROM ${from} WHERE ${where} AND namespace > ${name}.namespace)
       FROM ${name} WHERE ${name}.namespace IS NOT NULL)`
}
