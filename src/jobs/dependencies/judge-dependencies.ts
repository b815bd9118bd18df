import { encodeError } from '../../core/describe-error.ts'
import type { JobState } from '../job.ts'
import { decodeOnFailure } from '../job-meta.ts'
import type { JobStore } from '../job-store.ts'
import type { Dependency, GateStore } from './dependency-store.ts'

/**
 * Judges dependencies: looks what has become of the jobs that others wait for, and lets those on that have nothing left to wait
 * for. A job that is cancelled for a dependency that failed is itself a dependency that failed, so its own end is followed up.
 */
export interface JudgeParts {
  readonly gates: GateStore
  readonly store: Pick<JobStore, 'find'>
  /** A job of this queue may be claimed now. */
  onReady(queue: string): void
  /** A job is to be tended: it was called to its line. */
  onCalled(jobId: string): void
}

/** Dependencies are read in pages of so many. */
export const dependencyPage = 500

/** Judges a page of dependencies behind that place; answers how many there were, and where to go on if that was not the end. */
export async function judgeDependenciesFrom(
  parts: JudgeParts,
  after: Dependency | undefined,
): Promise<{ readonly count: number; readonly next: Dependency | undefined }> {
  const page = await parts.gates.unmet({ ...(after && { after }), limit: dependencyPage })
  await judgeDependencies(parts, page)
  return { count: page.length, next: page.length < dependencyPage ? undefined : page.at(-1) }
}

/** Judges the dependencies for these jobs, which have ended; answers how many there were. */
export async function judgeDependenciesOf(parts: JudgeParts, ids: readonly string[]): Promise<number> {
  let count = 0
  for (let of = ids; of.length > 0; ) {
    const page = await parts.gates.unmet({ of, limit: dependencyPage })
    count += page.length
    const { judged, cancelled } = await judgeDependencies(parts, page)
    // Those that are not judged yet stay where they are; a page full of nothing else is left to the walk over all.
    of = page.length === dependencyPage && judged > 0 ? [...of, ...cancelled] : cancelled
  }
  return count
}

interface Judgement {
  readonly judged: number
  readonly cancelled: readonly string[]
}

async function judgeDependencies(parts: JudgeParts, page: readonly Dependency[]): Promise<Judgement> {
  if (page.length === 0) return { judged: 0, cancelled: [] }
  const { gates } = parts
  const ids = [...new Set(page.map(({ dependencyId }) => dependencyId))]
  const found = await gates.states(ids)
  const states = new Map(ids.map((id, at) => [id, found[at]]))
  const met: Dependency[] = []
  const ends = new Map<string, string>()
  for (const dependency of page) {
    const state = states.get(dependency.dependencyId)
    if (state === 'completed') met.push(dependency)
    else if (hasFailed(state) && !ends.has(dependency.jobId)) {
      const verdict = await judgeFailed(parts, dependency, state)
      if (verdict === 'met') met.push(dependency)
      else if (verdict !== 'wait') ends.set(dependency.jobId, verdict)
    }
  }
  const letOn = met.length === 0 ? [] : await gates.meet(met)
  for (const { jobId, queue, to } of letOn) {
    if (to === 'lock') parts.onCalled(jobId)
    else parts.onReady(queue)
  }
  const cancelled =
    ends.size === 0 ? [] : await gates.fail(Array.from(ends, ([jobId, error]) => ({ jobId, error })))
  return { judged: met.length + cancelled.length, cancelled }
}

function hasFailed(state: JobState | undefined): boolean {
  return state === undefined || state === 'dead' || state === 'cancelled'
}

/** Whether the dependency counts as met, is waited for further, or ends the job that has it: with this error. */
async function judgeFailed(
  { store }: JudgeParts,
  { jobId, dependencyId }: Dependency,
  state: JobState | undefined,
): Promise<'met' | 'wait' | (string & {})> {
  const waiting = await store.find(jobId)
  // It waits no more: what is left is to clear the dependency away.
  if (waiting?.state !== 'waiting') return 'met'
  const onFailure = decodeOnFailure(waiting.meta)
  if (onFailure === 'run') return 'met'
  // What is gone will never complete.
  if (onFailure === 'wait' && state !== undefined) return 'wait'
  const what = state === undefined ? 'is gone: it was removed or pruned' : `is ${state}`
  return encodeError({
    name: 'NeedFailed',
    code: 'need_failed',
    message: `It waited for job "${dependencyId}", which ${what}. Retry it to run it all the same.`,
  })
}
