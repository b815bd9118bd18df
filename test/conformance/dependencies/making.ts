/** Jobs that wait, for the contracts of gates. */

import type { LockGate, NewGate, NewJob } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { addOne } from '../jobs/making.ts'

export const aLock: { readonly operation: string; readonly resource: string } = {
  operation: 'print',
  resource: 'printer 1',
}

/** A gate of what is said. */
export function gateOf(gate: Partial<NewGate>): NewGate {
  return { dependencies: [], lock: null, ...gate }
}

/** Adds a job that depends on these; answers its id. */
export function addNeeding(
  backend: Backend,
  dependencies: readonly string[],
  job: Partial<NewJob> = {},
  lock: NewGate['lock'] = null,
): Promise<string> {
  return addOne(backend, { ...job, gate: { dependencies, lock } })
}

/** Adds a job that waits for a lock; answers its id. */
export function addLocked(backend: Backend, job: Partial<NewJob> = {}): Promise<string> {
  return addOne(backend, { ...job, gate: { dependencies: [], lock: aLock } })
}

/** A job that waited for a lock and was granted it. */
export async function addGranted(backend: Backend, job: Partial<NewJob> = {}): Promise<string> {
  const jobId = await addLocked(backend, job)
  await backend.gates.grant({ jobId, askNo: 1, fence: 7 })
  return jobId
}

/** The lock gate of one job as it is, tended or not; it counts as tended for no time. */
export async function gateIn({ gates }: Backend, jobId: string): Promise<LockGate | undefined> {
  const [gate] = await gates.tend({ limit: 1, tendMs: 0, of: [jobId] })
  return gate
}
