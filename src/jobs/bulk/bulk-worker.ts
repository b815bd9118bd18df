import { patientClock } from '../../core/clock.ts'
import { SignalboxError } from '../../core/errors.ts'
import { queueTopic } from '../jobs-parts.ts'
import type { HandlerJob } from '../worker/handler-job.ts'
import { createWorker, type Worker } from '../worker/worker.ts'
import { type BulkCounts, type BulkOrder, type BulkParts, bulkKind, bulkQueue } from './bulk-operations.ts'
import { runBulk } from './bulk-run.ts'

/** Works on bulk operations, whoever began them, as long as a worker runs here or one was begun here. */
export interface BulkWork extends AsyncDisposable {
  /** Begins to look for operations, and goes on until it is closed. Safe to call again. */
  start(): void
  /** The same a while after its start or when one is begun, until it leaves: most processes never see one. */
  join(worker: Worker): void
  leave(worker: Worker): void
  /** Hands back what is under way; another goes on with it. */
  close(): Promise<void>
}

export interface BulkWorkParts extends BulkParts {
  /** How often to look for operations that others began, for a notifier may not reach everybody. @default 15_000 */
  readonly pollMs?: number
  /** Told of each operation that was worked to its end here; it ends when this has. Must not throw. */
  readonly onCompleted?: (operation: BulkOrder & BulkCounts & { readonly id: string }) => Promise<void>
}

const defaultPollMs = 15_000
const laterMs = 10_000
const graceMs = 2_000

export function createBulkWork(parts: BulkWorkParts): BulkWork {
  const joined = new Set<Worker>()
  let isKept = false
  let isClosed = false
  let crew: Crew | undefined
  let later: { readonly timer: unknown; unlisten(): void } | undefined
  const leaving = new Set<Promise<void>>()

  function begin(): void {
    endWait()
    if (!isClosed) crew ??= startCrew(parts)
  }

  function beginLater(): void {
    if (crew !== undefined || later !== undefined || isClosed) return
    const unlisten = parts.notifier.listen([queueTopic(bulkQueue)], begin)
    later = { timer: patientClock.setTimeout(begin, laterMs), unlisten }
  }

  function endWait(): void {
    if (later === undefined) return
    patientClock.clearTimeout(later.timer)
    later.unlisten()
    later = undefined
  }

  function end(): void {
    endWait()
    if (crew === undefined) return
    const left: Promise<void> = crew.stop().finally(() => leaving.delete(left))
    crew = undefined
    // Whoever closes it is told; that it was left early is nobody's to hear.
    left.catch(() => undefined)
    leaving.add(left)
  }

  const work: BulkWork = {
    start() {
      isKept = true
      begin()
    },
    join(worker) {
      const start = worker.start.bind(worker)
      worker.start = async () => {
        await start()
        joined.add(worker)
        beginLater()
      }
    },
    leave(worker) {
      if (joined.delete(worker) && joined.size === 0 && !isKept) end()
    },
    async close() {
      isClosed = true
      end()
      await Promise.all(leaving)
    },
    [Symbol.asyncDispose]: () => work.close(),
  }
  return work
}

interface Crew {
  stop(): Promise<void>
}

function startCrew(parts: BulkWorkParts): Crew {
  const stopping = new AbortController()
  const { store, notifier, pollMs = defaultPollMs } = parts
  const worker = createWorker(
    { store, notifier, reserved: true },
    {
      queues: [bulkQueue],
      concurrency: 1,
      // One held ready here would wait while another process is idle.
      prefetch: 0,
      pollMs,
      handlers: { [bulkKind]: (job, { signal }) => workOn(parts, job, stopping.signal, signal) },
    },
  )
  // It fails only where the store was closed meanwhile; then there is nothing to work on.
  worker.start().catch(() => undefined)
  return {
    async stop() {
      stopping.abort(new SignalboxError('closed', 'Whoever works on this is stopping.'))
      await worker.stop({ graceMs })
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
