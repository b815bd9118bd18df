import { encodeError } from '../../core/describe-error.ts'
import type { JobState } from '../job.ts'
import { decodeOnFailure } from '../job-meta.ts'
import type { JobStore } from '../job-store.ts'
import type { GateStore, Need } from './dependency-store.ts'

/**
 * Judges needs: looks what has become of the jobs that others wait for, and lets those on that have nothing left to wait
 * for. A job that is cancelled for a need that failed is itself a need that failed, so its own end is followed up.
 */
export interface NeedsParts {
  readonly gates: GateStore
  readonly store: Pick<JobStore, 'find'>
  /** A job of this queue may be claimed now. */
  onReady(queue: string): void
  /** A job is to be tended: it was called to its line. */
  onCalled(jobId: string): void
}

/** Needs are read in pages of so many. */
export const needsPage = 500

/** Judges a page of needs behind that place; answers how many there were, and where to go on if that was not the end. */
export async function judgeNeedsFrom(
  parts: NeedsParts,
  after: Need | undefined,
): Promise<{ readonly count: number; readonly next: Need | undefined }> {
  const page = await parts.gates.needs({ ...(after && { after }), limit: needsPage })
  await judgeNeeds(parts, page)
  return { count: page.length, next: page.length < needsPage ? undefined : page.at(-1) }
}

/** Judges the needs for these jobs, which have ended; answers how many there were. */
export async function judgeNeedsOf(parts: NeedsParts, ids: readonly string[]): Promise<number> {
  let count = 0
  for (let of = ids; of.length > 0; ) {
    const page = await parts.gates.needs({ of, limit: needsPage })
    count += page.length
    const { judged, cancelled } = await judgeNeeds(parts, page)
    // Those that are not judged yet stay where they are; a page full of nothing else is left to the walk over all.
    of = page.length === needsPage && judged > 0 ? [...of, ...cancelled] : cancelled
  }
  return count
}

interface Judgement {
  readonly judged: number
  readonly cancelled: readonly string[]
}

async function judgeNeeds(parts: NeedsParts, page: readonly Need[]): Promise<Judgement> {
  if (page.length === 0) return { judged: 0, cancelled: [] }
  const { gates } = parts
  const ids = [...new Set(page.map(({ needsId }) => needsId))]
  const found = await gates.states(ids)
  const states = new Map(ids.map((id, at) => [id, found[at]]))
  const met: Need[] = []
  const ends = new Map<string, string>()
  for (const need of page) {
    const state = states.get(need.needsId)
    if (state === 'completed') met.push(need)
    else if (hasFailed(state) && !ends.has(need.jobId)) {
      const verdict = await judgeFailed(parts, need, state)
      if (verdict === 'met') met.push(need)
      else if (verdict !== 'wait') ends.set(need.jobId, verdict)
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

/** Whether the need counts as met, is waited for further, or ends the job that has it: with this error. */
async function judgeFailed(
  { store }: NeedsParts,
  { jobId, needsId }: Need,
  state: JobState | undefined,
): Promise<'met' | 'wait' | (string & {})> {
  const waiting = await store.find(jobId)
  // It waits no more: what is left is to clear the need away.
  if (waiting?.state !== 'waiting') return 'met'
  const onFailure = decodeOnFailure(waiting.meta)
  if (onFailure === 'run') return 'met'
  // What is gone will never complete.
  if (onFailure === 'wait' && state !== undefined) return 'wait'
  const what = state === undefined ? 'is gone: it was removed or pruned' : `is ${state}`
  return encodeError({
    name: 'NeedFailed',
    code: 'need_failed',
    message: `It waited for job "${needsId}", which ${what}. Retry it to run it all the same.`,
  })
}
