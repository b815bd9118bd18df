import type { Duration } from '../../core/duration.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { duration, onlyKeys, refuse, text } from '../../core/options.ts'
import { decodeJob } from '../decode-job.ts'
import type { FinalState, Job } from '../job.ts'
import { notFound } from '../job-errors.ts'
import type { JobStore } from '../job-store.ts'
import { isFinal, type JobWaits } from './job-waits.ts'

/** How long to wait for a job. */
export interface WaitOptions {
  /** @default 60_000 */
  readonly timeoutMs?: Duration | undefined
  /** Ends the wait: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** A job that will not run again, unless an operator retries it. */
export type EndedJob<Payload = unknown> = Job<Payload> & { readonly state: FinalState }

/** How a wait for a job ended: the job has ended, or the time was over first. */
export type WaitedJob<Payload = unknown> =
  | { readonly status: 'ended'; readonly job: EndedJob<Payload> }
  | { readonly status: 'timeout'; readonly job: Job<Payload> }

/** A month; a timer takes no more. */
const maxTimeoutMs = 2 ** 31 - 1

export function resolveWait(options: WaitOptions): { timeoutMs: number; signal: AbortSignal | undefined } {
  onlyKeys('wait', options, ['timeoutMs', 'signal'])
  const { timeoutMs = 60_000, signal } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    refuse('wait.signal', 'an AbortSignal', signal)
  return { timeoutMs: duration('wait.timeoutMs', timeoutMs, { max: maxTimeoutMs }), signal }
}

/** Throws `not_found`, `closed`, the signal's reason, and what the store throws at the deadline. */
export async function waitForJob(
  { store, waits, passesSealed }: { store: Pick<JobStore, 'find'>; waits: JobWaits; passesSealed: boolean },
  id: string,
  options: WaitOptions,
): Promise<WaitedJob> {
  text('wait.id', id)
  const { timeoutMs, signal } = resolveWait(options)
  const endsAt = performance.now() + timeoutMs
  await waits.any([id], timeoutMs, signal)
  // Once it ended, its row has the result; at the deadline, this says how it stands, or why nothing is known.
  const record = await readUntil(endsAt, () => waits.read(() => store.find(id)), signal)
  if (record === undefined) throw notFound(id)
  const job = decodeJob(record, passesSealed)
  return isFinal(job.state) ? { status: 'ended', job: job as EndedJob } : { status: 'timeout', job }
}

/** Between two tries to read from a store that is away. */
const pauseMs = 200

/** A store that is away for longer than one call may take is asked again, until the time is over. */
async function readUntil<Answer>(
  endsAt: number,
  read: () => Promise<Answer>,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  for (;;) {
    try {
      return await read()
    } catch (error) {
      const isPassing = isSignalboxError(error, 'store_unavailable') || isSignalboxError(error, 'timeout')
      if (!isPassing || performance.now() + pauseMs >= endsAt) throw error
      signal?.throwIfAborted()
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
      signal?.throwIfAborted()
    }
  }
}
