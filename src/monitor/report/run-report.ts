import { isSignalboxError, type SignalboxError } from '../../core/errors.ts'
import type { GuardStore, OnceTally } from '../../once/index.ts'
import type { ResolvedMonitorOptions } from '../monitor-options.ts'
import {
  type FailedSubject,
  type Report,
  type ReportAnswer,
  type ReportedChange,
  type ResolvedReport,
  resolveReport,
  type Seen,
} from './report.ts'
import { type BatchParts, runBatch } from './report-batch.ts'
import { type Planned, throttled } from './report-plan.ts'

/**
 * Runs a report: claims its task, decides and writes its venues in batches that
 * stand or fall by themselves, and the task is done when all of them stood.
 */
export async function runReport(
  parts: BatchParts & TaskGuardParts,
  given: Report,
  options: ResolvedMonitorOptions,
): Promise<ReportAnswer> {
  const report = resolveReport(given, options.ignore)
  const task = await takeTask(parts, report.taskId, options)
  if (typeof task === 'string') return { ...nothing, status: task }
  let isDone = false
  try {
    const results = await runBatches(parts, report, options)
    const errors = results.flatMap(({ error }) => error ?? [])
    // Where nothing at all could be written it is the store that failed, not the report.
    if (errors.length > 0 && errors.length === results.length) throw errors[0]
    isDone = errors.length === 0
    return answer(report, results)
  } finally {
    // What was written stands, and the claim runs out by itself: an answer is not lost for the sake of its guard.
    await task.end(isDone ? 'done' : 'failed').catch(() => undefined)
  }
}

const nothing: Omit<ReportAnswer, 'status'> = { changes: [], notified: 0, suppressed: [], failed: [] }

interface BatchResult {
  readonly seen: readonly Seen[]
  readonly planned: readonly Planned[]
  readonly error: SignalboxError | null
}

async function runBatches(
  parts: BatchParts,
  report: ResolvedReport,
  { batchSize, maxConcurrent }: ResolvedMonitorOptions,
): Promise<readonly BatchResult[]> {
  const batches: (readonly Seen[])[] = []
  for (let from = 0; from < report.seen.length; from += batchSize)
    batches.push(report.seen.slice(from, from + batchSize))
  const { subscribers } = await parts.rules.book()
  // Batches that are decided at once do not see each other's notifications, so a throttle has them one by one.
  const hands = throttled([...subscribers.values()]).length > 0 ? 1 : maxConcurrent
  const results: BatchResult[] = []
  const rest = batches.entries()
  const work = async () => {
    for (const [index, seen] of rest) results[index] = await tryBatch(parts, report, seen)
  }
  await Promise.all(Array.from({ length: Math.min(hands, batches.length) }, work))
  return results
}

async function tryBatch(
  parts: BatchParts,
  { taskId, source, group, observedAt }: ResolvedReport,
  seen: readonly Seen[],
): Promise<BatchResult> {
  try {
    const ask = { taskId, source, group, observedAt, isReconcile: false, seen }
    return { seen, planned: await runBatch(parts, ask), error: null }
  } catch (error) {
    if (isSignalboxError(error)) return { seen, planned: [], error }
    throw error
  }
}

function answer(report: ResolvedReport, results: readonly BatchResult[]): ReportAnswer {
  const changes: ReportedChange[] = []
  const suppressed: ReportAnswer['suppressed'][number][] = []
  const failed: FailedSubject[] = [...report.failed]
  let notified = 0
  for (const { seen, planned, error } of results) {
    if (error) {
      const { code, message } = error
      for (const { name } of seen) failed.push({ ...report.show(name), error: { code, message } })
    }
    for (const { seen, known, decision } of planned) {
      const shown = report.show(seen.name)
      const { reason, isChange, verdicts } = decision
      const notifiedCount = verdicts.filter((verdict) => verdict.notified).length
      notified += notifiedCount
      if (isChange) {
        const from = known ? JSON.parse(known.state) : null
        changes.push({ ...shown, from, to: JSON.parse(seen.state), reason })
      }
      if (notifiedCount === 0 && reason !== 'new' && reason !== 'unchanged')
        suppressed.push({ ...shown, reason })
    }
  }
  return { status: 'processed', changes, notified, suppressed, failed }
}

/** A task that this report has claimed. */
interface HeldTask {
  /** `done`: a later report of it is answered as a duplicate. `failed`: it may be reported again at once. */
  end(how: 'done' | 'failed'): Promise<void>
}

interface TaskGuardParts {
  readonly guards: GuardStore
  readonly tally: OnceTally
}

const space = 'monitor.task'

/** Claims a task and renews the claim while the report runs; or says that another report has it, or that it was done. */
async function takeTask(
  { guards, tally }: TaskGuardParts,
  taskId: string,
  { lockTtlMs, taskKeepMs }: { readonly lockTtlMs: number; readonly taskKeepMs: number },
): Promise<HeldTask | 'busy' | 'duplicate'> {
  const [standing] = await guards.claim([
    {
      space,
      key: taskId,
      leaseMs: lockTtlMs,
      keepMs: taskKeepMs,
      mode: 'at-least-once',
      fingerprint: null,
    },
  ])
  tally.claimed(space, taskId, standing!)
  if (standing!.status === 'done') return 'duplicate'
  if (standing!.status !== 'run') return 'busy'
  const ref = { space, key: taskId, token: standing!.token }
  // Should it be lost nevertheless, two report the same: every write is conditional, so nothing is notified twice.
  const renewal = setInterval(() => {
    guards.renew(ref, lockTtlMs).catch(() => undefined)
  }, lockTtlMs / 3)
  renewal.unref()
  return {
    async end(how) {
      clearInterval(renewal)
      await guards.settle([{ ...ref, end: how, result: null }])
    },
  }
}
