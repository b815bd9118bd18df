import type { Added, Dependency, NewJob } from '../../../jobs/index.ts'
import { type Bound, statement } from '../statement.ts'

const writeDependencies = statement(
  'dependency_add',
  { namespace: 'text', rows: { job_id: 'text', dependency_id: 'text' } },
  () => `
INSERT INTO @job_dependency (namespace, job_id, dependency_id, is_met)
SELECT :namespace, v.job_id, v.dependency_id, FALSE FROM :rows`,
)

const writeLocks = statement(
  'dependency_add_lock',
  { namespace: 'text', rows: { job_id: 'text', operation: 'text', resource: 'text', is_called: 'boolean' } },
  () => `
INSERT INTO @job_lock (namespace, job_id, operation, resource, ask_no, is_called, tended_until)
SELECT :namespace, v.job_id, v.operation, v.resource, 1, v.is_called, 0 FROM :rows`,
)

/** The statements that write what these jobs wait for, in the transaction that has added them. */
export function insertDependencies(
  namespace: string,
  jobs: readonly NewJob[],
  added: readonly Added[],
): readonly Bound[] {
  const { dependencies, locks } = listDependencyRows(jobs, added)
  const rows = dependencies.map(({ jobId, dependencyId }) => ({ job_id: jobId, dependency_id: dependencyId }))
  const lockRows = locks.map(({ jobId, isCalled, ...lock }) => ({
    job_id: jobId,
    ...lock,
    is_called: isCalled,
  }))
  return [
    ...(rows.length === 0 ? [] : [writeDependencies({ namespace, rows })]),
    ...(lockRows.length === 0 ? [] : [writeLocks({ namespace, rows: lockRows })]),
  ]
}

/** The rows that new jobs add to `job_dependency` and `job_lock`. */
interface DependencyRows {
  readonly dependencies: readonly Dependency[]
  readonly locks: readonly {
    readonly jobId: string
    readonly operation: string
    readonly resource: string
    /** Whether to request the lock at once. */
    readonly isCalled: boolean
  }[]
}

/** If a job of the call was a duplicate, a dependency on it becomes a dependency on the existing job. */
function listDependencyRows(jobs: readonly NewJob[], added: readonly Added[]): DependencyRows {
  const ids = new Map(jobs.map(({ id }, at) => [id, added[at]!.id]))
  const blocked = jobs.flatMap(({ id, dependsOn }, at) =>
    dependsOn && !added[at]!.duplicate ? [{ id, ...dependsOn }] : [],
  )
  return {
    dependencies: blocked.flatMap(({ id, jobs: others }) =>
      [...new Set(others.map((other) => ids.get(other) ?? other))].map((dependencyId) => ({
        jobId: id,
        dependencyId,
      })),
    ),
    locks: blocked.flatMap(({ id, jobs: others, lock }) =>
      lock === null
        ? []
        : [{ jobId: id, operation: lock.operation, resource: lock.resource, isCalled: others.length === 0 }],
    ),
  }
}
