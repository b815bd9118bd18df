import { setTimeout as sleep } from 'node:timers/promises'
import { patientClock } from '../../core/clock.ts'
import { SignalboxError } from '../../core/errors.ts'
import { isReserved } from '../api/add-options.ts'
import { cancelTopic, queueTopic } from '../api/jobs-api.ts'
import { leaseLost } from '../job-errors.ts'
import type { JobRecord } from '../job-store.ts'
import { scanJobs } from '../search/scan-jobs.ts'
import { parseSearch } from '../search/search-terms.ts'
import { createWorkerCompanion } from '../upkeep.ts'
import type { HandlerJob } from '../worker/handler-job.ts'
import { createWorker, type Worker } from '../worker/worker.ts'
import {
  type BulkAction,
  type BulkCounts,
  type BulkOrder,
  type BulkParts,
  bulkKind,
  bulkQueue,
} from './bulk-operations.ts'

/** Works on the bulk operations of any process, while a worker runs in this one or after an operation began in it. */
export interface BulkWork extends AsyncDisposable {
  /** Claims operations from now on, until it is closed. Safe to repeat. */
  start(): void
  /** Claims operations while this worker runs: after a delay, or at the first wake-up. Most processes never get one. */
  workerStarted(worker: Worker): void
  workerStopped(worker: Worker): void
  /** Hands back the operation under way; another process continues it. */
  close(): Promise<void>
}

export interface BulkWorkParts extends BulkParts {
  /** How often to check for operations of other processes, whose wake-ups may not arrive here. @default 15_000 */
  readonly pollMs?: number
  /** Called after each operation that this process completes. The operation ends after the callback. Must not throw. */
  readonly onCompleted?: (operation: BulkOrder & BulkCounts & { readonly id: string }) => Promise<void>
}

const laterMs = 10_000
const graceMs = 2_000

export function createBulkWork(parts: BulkWorkParts): BulkWork {
  const companion = createWorkerCompanion(() => createBulkTask(parts))
  return {
    ...companion,
    start: () => companion.keep()?.start(),
    [Symbol.asyncDispose]: companion.close,
  }
}

interface BulkTask {
  start(): void
  stop(): Promise<void>
}

function createBulkTask(parts: BulkWorkParts): BulkTask {
  const stopping = new AbortController()
  const { store, notifier, pollMs = 15_000 } = parts
  let worker: Worker | undefined
  const unlisten = notifier.listen([queueTopic(bulkQueue)], start)
  const timer = patientClock.setTimeout(start, laterMs)

  function endDelay(): void {
    unlisten()
    patientClock.clearTimeout(timer)
  }

  function start(): void {
    if (worker !== undefined) return
    endDelay()
    worker = createWorker(
      { store, notifier, reserved: true },
      {
        queues: [bulkQueue],
        concurrency: 1,
        // A prefetched operation would wait in this process while another process is idle.
        prefetch: 0,
        pollMs,
        handlers: { [bulkKind]: (job, { signal }) => workOn(parts, job, stopping.signal, signal) },
      },
    )
    // The start fails only if the store was closed meanwhile. Then no operation can run.
    worker.start().catch(() => undefined)
  }

  return {
    start,
    async stop() {
      endDelay()
      stopping.abort(new SignalboxError('closed', 'The process that works on this operation is stopping.'))
      await worker?.stop({ graceMs })
    },
  }
}

async function workOn(
  parts: BulkWorkParts,
  job: HandlerJob,
  stopping: AbortSignal,
  cut: AbortSignal,
): Promise<BulkCounts | undefined> {
  const order = job.payload as BulkOrder
  const signal = AbortSignal.any([stopping, cut])
  const { id, token, attempt, createdAt: startedAt } = job
  try {
    const counts = await runBulk(parts, { id, token, attempt, startedAt, order, signal, cut })
    await parts.onCompleted?.({ id, ...order, ...counts })
    return counts
  } catch (error) {
    if (!stopping.aborted || cut.aborted) throw error
    await job.nack({ handBack: true })
    return undefined
  }
}

/**
 * Works on one operation, slice by slice, from the newest job that existed when it began to the oldest.
 *
 *     find a slice of jobs ──▶ save the slice and the position ──▶ act on each job ──▶ find the next slice
 *
 * The slice has a snapshot of each job. If a job has changed when the run reaches it, the run does not retry or delete
 * it. So the process that takes over after a crash retries no job twice, and counts the changed jobs as done.
 */
export interface BulkRun {
  readonly id: string
  readonly token: string
  readonly attempt: number
  /** By the store's clock. Spans in the search count from this time, however long the operation takes. */
  readonly startedAt: number
  readonly order: BulkOrder
  /** Ends the run after the present slice. */
  readonly signal: AbortSignal
  /** Ends the run at once: another process has the operation now. */
  readonly cut?: AbortSignal
}

/** The number of jobs in a slice, and the limits of the scan that finds them. */
const sliceSize = 50
const sliceBounds = { maxRows: 2_000, maxMs: 100 }
/**
 * After each slice the run rests as long as it worked, up to this. So other callers get about half of the store's time.
 */
const maxRestMs = 250

/** The position of an operation, which the progress of its job stores. */
interface BulkPosition extends BulkCounts {
  /** The last job that was read; null: all jobs were read; undefined: none yet. */
  readonly cursor?: string | null
  /** The jobs of the present slice. */
  readonly slice: readonly (readonly [id: string, snapshot: string])[]
}

export async function runBulk(parts: BulkParts, run: BulkRun): Promise<BulkCounts> {
  const { store, logs } = parts
  const { id, token, attempt, order, startedAt, signal, cut } = run
  const terms = parseSearch(order.search)
  const [saved] = await logs.progress([id])
  let at: BulkPosition = saved
    ? (JSON.parse(saved.progress) as BulkPosition)
    : { slice: [], matched: 0, done: 0, skipped: 0 }

  /** Whether the job is older than the operation, by the store's clock. The clocks of the ids may differ. */
  const isOlder = (record: JobRecord) =>
    record.createdAt < startedAt || (record.createdAt === startedAt && record.id < id)

  const lease = [{ jobId: id, token }]
  // Check the lease each time: the worker may notice a lost lease late, and must not overwrite the new owner's
  // position.
  async function save(position: BulkPosition): Promise<void> {
    const [outcome] = await store.outcomes(lease)
    if (outcome !== 'held') throw leaseLost(id)
    await logs.add([{ jobId: id, token, attempt, progress: JSON.stringify(position), logs: [] }])
  }

  let beganAt = performance.now()
  // The first slice is from an earlier run, which may have handled some of its jobs.
  for (let isTakenOver = true; ; isTakenOver = false) {
    const { done, skipped } = await runSlice(parts, order.action, at.slice, { isTakenOver, cut })
    at = { ...at, slice: [], done: at.done + done, skipped: at.skipped + skipped }
    // Save the counts before the run may end here.
    if (done + skipped > 0) await save(at)
    signal.throwIfAborted()
    const left = order.limit === null ? sliceSize : Math.min(sliceSize, order.limit - at.matched)
    if (at.cursor === null || left <= 0) break
    // Ends early when the signal aborts.
    const restMs = Math.min(maxRestMs, performance.now() - beganAt)
    await sleep(restMs, undefined, { signal }).catch(() => signal.throwIfAborted())

    beganAt = performance.now()
    const found: JobRecord[] = []
    const query = at.cursor === undefined ? {} : { before: at.cursor }
    const scan = { terms, now: startedAt, query, bounds: sliceBounds }
    const { cursor } = await scanJobs(store, scan, (record) => {
      if (!isReserved(record.queue) && isOlder(record)) found.push(record)
      return found.length < left
    })
    const slice = found.map((record) => [record.id, snapshotOf(record)] as const)
    const [cancelled] = await store.cancelRequests(lease)
    if (cancelled !== undefined) throw new SignalboxError('closed', 'This operation was cancelled.')
    at = { ...at, cursor, slice, matched: at.matched + found.length }
    await save(at)
  }
  const { matched, done, skipped } = at
  return { matched, done, skipped }
}

/** Changes whenever a job is retried, cancelled or run. */
function snapshotOf({ state, attempt, runAt, startedAt, finishedAt }: JobRecord): string {
  // The snapshot omits the state of a live job: an expired lease changes it without any action.
  const ended = state === 'completed' || state === 'cancelled' || state === 'dead'
  return [ended && state, attempt, runAt, startedAt, finishedAt].join(' ')
}

/**
 * A search may find jobs that have not failed: `queue:mail` also finds jobs that are due next week. A retry skips a job
 * without an attempt, and a job that is ready already. The store decides about a running job, whose lease may have
 * ended.
 */
function isRetryable({ state, attempt }: JobRecord): boolean {
  return state !== 'ready' && state !== 'waiting' && !(state === 'scheduled' && attempt === 0)
}

type SliceCounts = Pick<BulkCounts, 'done' | 'skipped'>

interface SliceOptions {
  /** Whether an earlier run may have handled some of the jobs. */
  readonly isTakenOver: boolean
  readonly cut: AbortSignal | undefined
}

async function runSlice(
  parts: BulkParts,
  action: BulkAction,
  slice: BulkPosition['slice'],
  { isTakenOver, cut }: SliceOptions,
): Promise<SliceCounts> {
  if (slice.length === 0) return { done: 0, skipped: 0 }
  if (action === 'delete') return removeAll(parts, slice, { isTakenOver, cut })
  let done = 0
  const queues = new Set<string>()
  let cancelsRunning = false
  try {
    for (const [id, snapshot] of slice) {
      const record = await parts.store.find(id)
      cut?.throwIfAborted()
      if (record === undefined) continue
      const isChanged = snapshotOf(record) !== snapshot
      if (action === 'cancel') {
        if (record.finishedAt !== null) {
          if (isChanged && record.state === 'cancelled') done++
          continue
        }
        const answer = await parts.store.cancel(id)
        if (answer?.cancelRequested) cancelsRunning = true
        if (answer?.cancelRequested || answer?.state === 'cancelled') done++
        if (answer?.state === 'cancelled') parts.activity?.cancelled(record)
      } else if (isChanged) {
        // Another caller retried the job meanwhile, or it ran. After a crash, this operation most likely retried it.
        if (isTakenOver) done++
      } else if (isRetryable(record)) {
        const answer = await parts.store.retry(id)
        if (answer?.outcome !== 'ready') continue
        queues.add(record.queue)
        done++
      }
    }
  } finally {
    if (cancelsRunning) parts.notifier.wake(cancelTopic)
    for (const queue of queues) parts.notifier.wake(queueTopic(queue))
  }
  return { done, skipped: slice.length - done }
}

async function removeAll(
  { store }: BulkParts,
  slice: BulkPosition['slice'],
  { isTakenOver, cut }: SliceOptions,
): Promise<SliceCounts> {
  const ids: string[] = []
  let goneBefore = 0
  for (const [id, snapshot] of slice) {
    const record = await store.find(id)
    if (record === undefined) goneBefore++
    // A job that was retried or began to run meanwhile may no longer match.
    else if (snapshotOf(record) === snapshot) ids.push(id)
    cut?.throwIfAborted()
  }
  const removed = await store.remove(ids)
  const done = removed.length + (isTakenOver ? goneBefore : 0)
  return { done, skipped: slice.length - done }
}
