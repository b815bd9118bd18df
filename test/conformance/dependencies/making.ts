/** Blocked jobs, for the contracts of dependencies. */

import type { LockDependency, NewDependencies, NewJob } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { addOne } from '../jobs/making.ts'

export const aLock: { readonly operation: string; readonly resource: string } = {
  operation: 'print',
  resource: 'printer 1',
}

/** The dependencies of a new job. */
export function dependenciesOf(dependsOn: Partial<NewDependencies>): NewDependencies {
  return { jobs: [], lock: null, ...dependsOn }
}

/** Adds a job with these dependencies. Returns its id. */
export function addNeeding(
  backend: Backend,
  dependencies: readonly string[],
  job: Partial<NewJob> = {},
  lock: NewDependencies['lock'] = null,
): Promise<string> {
  return addOne(backend, { ...job, dependsOn: { jobs: dependencies, lock } })
}

/** Adds a job that waits for a lock. Returns its id. */
export function addLocked(backend: Backend, job: Partial<NewJob> = {}): Promise<string> {
  return addOne(backend, { ...job, dependsOn: { jobs: [], lock: aLock } })
}

/** A job that waited for a lock and was granted it. */
export async function addGranted(backend: Backend, job: Partial<NewJob> = {}): Promise<string> {
  const jobId = await addLocked(backend, job)
  await backend.dependencies.grant({ jobId, askNo: 1, fence: 7 })
  return jobId
}

/** The present lock dependency of one job, tended or not; it then counts as tended for 0 ms. */
export async function lockOf({ dependencies }: Backend, jobId: string): Promise<LockDependency | undefined> {
  const [lock] = await dependencies.tend({ limit: 1, tendMs: 0, of: [jobId] })
  return lock
}
