import { encodeError } from '../../core/describe-error.ts'
import type { JobState } from '../job.ts'
import { decodeMeta } from '../job-facts.ts'
import type { JobRecord, JobStore } from '../job-store.ts'
import type { Dependency, DependencyStore } from './dependency-store.ts'

/**
 * Judges dependencies: reads how the dependencies ended, and unblocks or cancels the dependents. A job that is
 * cancelled for a failed dependency is itself a failed dependency, so its dependents are judged too.
 */
export interface JudgeParts {
  readonly dependencies: DependencyStore
  readonly store: Pick<JobStore, 'find'>
  /** A job of this queue may be claimed now. */
  onReady(queue: string): void
  /** A resolver must request the lock of this job. */
  onLockNeeded(jobId: string): void
}

/** The number of dependencies in a page. */
export const dependencyPage = 500

/** Judges a page of dependencies behind `after`. Returns its size, and where the next page begins, if there is one. */
export async function judgeDependenciesFrom(
  parts: JudgeParts,
  after: Dependency | undefined,
): Promise<{ readonly count: number; readonly next: Dependency | undefined }> {
  const page = await parts.dependencies.unmet({ ...(after && { after }), limit: dependencyPage })
  await judgeDependencies(parts, page)
  return { count: page.length, next: page.length < dependencyPage ? undefined : page.at(-1) }
}

/** Judges the dependencies on these ended jobs. Returns their number. */
export async function judgeDependenciesOf(parts: JudgeParts, ids: readonly string[]): Promise<number> {
  let count = 0
  for (let of = ids; of.length > 0; ) {
    const page = await parts.dependencies.unmet({ of, limit: dependencyPage })
    count += page.length
    const { judged, cancelled } = await judgeDependencies(parts, page)
    // Undecided dependencies stay in the page. If a page has nothing else, the walk over all dependencies does the
    // rest.
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
  const { dependencies } = parts
  const ids = [...new Set(page.map(({ dependencyId }) => dependencyId))]
  const found = await dependencies.states(ids)
  const states = new Map(ids.map((id, at) => [id, found[at]]))
  const met: Dependency[] = []
  const ends = new Map<string, string>()
  for (const dependency of page) {
    const state = states.get(dependency.dependencyId)
    if (state === 'completed') met.push(dependency)
    else if (hasFailed(state) && !ends.has(dependency.jobId)) {
      const verdict = judgeFailed(await parts.store.find(dependency.jobId), dependency.dependencyId, state)
      if (verdict === 'met') met.push(dependency)
      else if (verdict !== 'wait') ends.set(dependency.jobId, verdict)
    }
  }
  const unblocked = met.length === 0 ? [] : await dependencies.meet(met)
  for (const { jobId, queue, to } of unblocked) {
    if (to === 'lock') parts.onLockNeeded(jobId)
    else parts.onReady(queue)
  }
  const cancelled =
    ends.size === 0 ? [] : await dependencies.fail(Array.from(ends, ([jobId, error]) => ({ jobId, error })))
  return { judged: met.length + cancelled.length, cancelled }
}

function hasFailed(state: JobState | undefined): boolean {
  return state === undefined || state === 'dead' || state === 'cancelled'
}

/**
 * Decides what a failed dependency means for its job: it counts as met, or the job waits on, or ends with this error.
 */
function judgeFailed(
  job: Pick<JobRecord, 'state' | 'meta'> | undefined,
  dependencyId: string,
  state: JobState | undefined,
): 'met' | 'wait' | (string & {}) {
  // The job is no longer blocked: `meet` only clears the dependency.
  if (job?.state !== 'waiting') return 'met'
  const { onFailure } = decodeMeta(job.meta)
  if (onFailure === 'run') return 'met'
  // A job that is gone will never complete.
  if (onFailure === 'wait' && state !== undefined) return 'wait'
  const what = state === undefined ? 'is gone: it was removed or pruned' : `is ${state}`
  return encodeError({
    name: 'NeedFailed',
    code: 'need_failed',
    message: `The job waited for job "${dependencyId}", which ${what}. Retry the job to run it anyway.`,
  })
}

/**
 * Walks all dependencies, page by page and round by round, to find those that no wake-up named. Rounds begin at least a
 * second apart. Long rounds begin further apart, so that the walk takes at most a tenth of the time.
 */
export class DependencyWalk {
  readonly #judge: JudgePage
  #position: Dependency | undefined
  #beganAt = 0
  #nextAt = 0
  #count = 0
  #lastCount = 0
  #isExpecting = false

  constructor(judge: JudgePage) {
    this.#judge = judge
  }

  /** Whether a round has begun and not ended. */
  get isUnderWay(): boolean {
    return this.#position !== undefined
  }

  /** Whether the last round or this one found dependencies, or `expect` announced new ones. */
  get hasFound(): boolean {
    return this.#isExpecting || this.#lastCount > 0 || this.#count > 0
  }

  /** Announces new dependencies, which the present round may miss. */
  expect(): void {
    this.#isExpecting = true
  }

  /** Judges one page, if a round is under way or due. */
  async step(): Promise<void> {
    const now = performance.now()
    if (!this.isUnderWay) {
      if (now < this.#nextAt) return
      this.#beganAt = now
      this.#count = 0
      this.#isExpecting = false
    }
    const { count, next } = await this.#judge(this.#position)
    this.#count += count
    this.#position = next
    if (next !== undefined) return
    this.#lastCount = this.#count
    const tookMs = performance.now() - this.#beganAt
    this.#nextAt = performance.now() + Math.max(restMs, tookMs * restsPerRound)
  }
}

/** Judges the page behind `after`. Answers its size, and where the next page begins, if there is one. */
type JudgePage = (
  after: Dependency | undefined,
) => Promise<{ readonly count: number; readonly next: Dependency | undefined }>

const restMs = 900
const restsPerRound = 9
