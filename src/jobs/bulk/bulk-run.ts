import { SignalboxError } from '../../core/errors.ts'
import { isReserved } from '../api/add-options.ts'
import { leaseLost } from '../job-errors.ts'
import type { JobRecord } from '../job-store.ts'
import { cancelTopic, queueTopic } from '../jobs-parts.ts'
import { parseSearch } from '../search/parse-search.ts'
import { scanJobs } from '../search/scan-jobs.ts'
import type { BulkAction, BulkCounts, BulkOrder, BulkParts } from './bulk-operations.ts'

/**
 * Works on one operation, slice by slice, from the newest job that was there when it began to the oldest.
 *
 *     look for a few ──▶ note which ones, and how far it is ──▶ do it to each ──▶ look for the next few
 *
 * Each is noted with what it looked like. One that looks different when its turn comes is not retried or deleted: it is
 * another story by then. So whoever takes over after a crash retries none twice, and counts those as done.
 */
export interface BulkRun {
  readonly id: string
  readonly token: string
  readonly attempt: number
  /** By the store's clock: what spans in the search count from, however long it takes. */
  readonly startedAt: number
  readonly order: BulkOrder
  /** To be left after the slice that is under way. */
  readonly signal: AbortSignal
  /** To be left at once: it is another's by now. */
  readonly cut?: AbortSignal
}

/** Jobs that are meant and are done next, and jobs that are looked at for them. */
const sliceSize = 50
const sliceBounds = { maxRows: 2_000, maxMs: 100 }
/** It rests as long as it worked, within this: whoever else uses the store has half of it at least. */
const maxRestMs = 250

/** How far it is, as noted. */
interface Noted extends BulkCounts {
  /** The last job that was looked at; null: all were; undefined: none yet. */
  readonly cursor?: string | null
  /** Those under way: ids, and what each looked like. */
  readonly slice: readonly (readonly [id: string, look: string])[]
}

export async function runBulk(parts: BulkParts, run: BulkRun): Promise<BulkCounts> {
  const { store, logs } = parts
  const { id, token, attempt, order, startedAt, signal, cut } = run
  const terms = parseSearch(order.search)
  const [said] = await logs.progress([id])
  let at: Noted = said ? (JSON.parse(said.progress) as Noted) : { slice: [], matched: 0, done: 0, skipped: 0 }

  /** Whether it was there before the operation. By the store's clock: ids are made by the clocks of whoever adds. */
  const wasThere = (record: JobRecord) =>
    record.createdAt < startedAt || (record.createdAt === startedAt && record.id < id)

  const lease = [{ jobId: id, token }]
  // Asked each time: its worker hears of it as well, but perhaps later, and what another has noted must stand.
  async function note(noted: Noted): Promise<void> {
    const [outcome] = await store.outcomes(lease)
    if (outcome !== 'held') throw leaseLost(id)
    await logs.add([{ jobId: id, token, attempt, progress: JSON.stringify(noted), logs: [] }])
  }

  let beganAt = performance.now()
  // Those of the first slice were another's, who may have done it to some of them.
  for (let isTakenOver = true; ; isTakenOver = false) {
    const { done, skipped } = await doSlice(parts, order.action, at.slice, { isTakenOver, cut })
    at = { ...at, slice: [], done: at.done + done, skipped: at.skipped + skipped }
    // What was done counts, also where this is the end of it.
    if (done + skipped > 0) await note(at)
    signal.throwIfAborted()
    const left = order.limit === null ? sliceSize : Math.min(sliceSize, order.limit - at.matched)
    if (at.cursor === null || left <= 0) break
    await rest(Math.min(maxRestMs, performance.now() - beganAt), signal)
    signal.throwIfAborted()

    beganAt = performance.now()
    const found: JobRecord[] = []
    const query = at.cursor === undefined ? {} : { before: at.cursor }
    const scan = { terms, now: startedAt, query, bounds: sliceBounds }
    const { cursor } = await scanJobs(store, scan, (record) => {
      if (!isReserved(record.queue) && wasThere(record)) found.push(record)
      return found.length < left
    })
    const slice = found.map((record) => [record.id, lookOf(record)] as const)
    const [unwanted] = await store.cancelRequests(lease)
    if (unwanted !== undefined) throw new SignalboxError('closed', 'This operation was cancelled.')
    at = { ...at, cursor, slice, matched: at.matched + found.length }
    await note(at)
  }
  const { matched, done, skipped } = at
  return { matched, done, skipped }
}

/** Everything that changes when a job is retried, cancelled or run. */
function lookOf({ state, attempt, runAt, startedAt, finishedAt }: JobRecord): string {
  // A lease that runs out changes the state alone, and is nobody's doing.
  const ended = state === 'completed' || state === 'cancelled' || state === 'dead'
  return [ended && state, attempt, runAt, startedAt, finishedAt].join(' ')
}

type Done = Pick<BulkCounts, 'done' | 'skipped'>

interface Doing {
  /** Another may have done it to some of them. */
  readonly isTakenOver: boolean
  readonly cut: AbortSignal | undefined
}

async function doSlice(
  parts: BulkParts,
  action: BulkAction,
  slice: Noted['slice'],
  { isTakenOver, cut }: Doing,
): Promise<Done> {
  if (slice.length === 0) return { done: 0, skipped: 0 }
  if (action === 'delete') return removeAll(parts, slice, { isTakenOver, cut })
  let done = 0
  const queues = new Set<string>()
  let asksRunning = false
  try {
    for (const [id, look] of slice) {
      const record = await parts.store.find(id)
      cut?.throwIfAborted()
      if (record === undefined) continue
      const isChanged = lookOf(record) !== look
      if (action === 'cancel') {
        if (record.finishedAt !== null) {
          if (isChanged && record.state === 'cancelled') done++
          continue
        }
        const answer = await parts.store.cancel(id)
        if (answer?.cancelRequested) asksRunning = true
        if (answer?.cancelRequested || answer?.state === 'cancelled') done++
      } else if (isChanged) {
        // Somebody retried it meanwhile, or it ran: once is enough. Whoever was cut off here most likely did.
        if (isTakenOver) done++
      } else {
        const answer = await parts.store.retry(id)
        if (answer?.outcome !== 'ready') continue
        queues.add(record.queue)
        done++
      }
    }
  } finally {
    if (asksRunning) parts.notifier.wake(cancelTopic)
    for (const queue of queues) parts.notifier.wake(queueTopic(queue))
  }
  return { done, skipped: slice.length - done }
}

async function removeAll(
  { store }: BulkParts,
  slice: Noted['slice'],
  { isTakenOver, cut }: Doing,
): Promise<Done> {
  const ids: string[] = []
  let goneBefore = 0
  for (const [id, look] of slice) {
    const record = await store.find(id)
    if (record === undefined) goneBefore++
    // One that was retried or began to run meanwhile may not be meant any more.
    else if (lookOf(record) === look) ids.push(id)
    cut?.throwIfAborted()
  }
  const removed = await store.remove(ids)
  const done = removed.length + (isTakenOver ? goneBefore : 0)
  return { done, skipped: slice.length - done }
}

/** Ends early when it is to stop. */
function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    if (signal.aborted) end()
    else signal.addEventListener('abort', end)
  })
}
