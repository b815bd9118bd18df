import type { Added, Dependency, NewJob } from '../../../jobs/index.ts'

/** The rows that new jobs add to `job_dependency` and `job_lock`. */
export interface DependencyRows {
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
export function listDependencyRows(jobs: readonly NewJob[], added: readonly Added[]): DependencyRows {
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
