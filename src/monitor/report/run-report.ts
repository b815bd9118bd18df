import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { queueTopic } from '../../jobs/index.ts'
import type { GuardStore, OnceTally } from '../../once/index.ts'
import type { ResolvedMonitorOptions } from '../monitor-options.ts'
import type { BatchAnswer, Known, MonitorStore, ReportBatch } from '../monitor-store.ts'
import { type Mint, notifyQueue } from '../notification-queue.ts'
import { showPlace } from '../subject-forms.ts'
import type { RuleCache } from '../subscription-rules.ts'
import {
  type FailedSubject,
  type Report,
  type ReportAnswer,
  type ReportedChange,
  type ResolvedReport,
  resolveReport,
  type Seen,
} from './report.ts'
import { type Plan, type Planned, plan, throttled } from './report-plan.ts'

/**
 * Runs a report: claims its task, then decides and writes its subjects in independent batches. The task is done if all
 * batches succeed.
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
    // If no batch could be written, the store failed, not the report.
    if (errors.length > 0 && errors.length === results.length) throw errors[0]
    isDone = errors.length === 0
    return answer(report, results)
  } finally {
    // A failure here must not hide the answer: the batches are written, and the claim expires by itself.
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
  // Batches at the same time do not count each other's notifications, so with a throttle they run one by one.
  const concurrency = throttled([...subscribers.values()]).length > 0 ? 1 : maxConcurrent
  const results: BatchResult[] = []
  const rest = batches.entries()
  const work = async () => {
    for (const [index, seen] of rest) results[index] = await tryBatch(parts, report, seen)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, batches.length) }, work))
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

interface HeldTask {
  /** `done`: a later report of the task is a duplicate. `failed`: the task may be reported again at once. */
  end(how: 'done' | 'failed'): Promise<void>
}

interface TaskGuardParts {
  readonly guards: GuardStore
  readonly tally: OnceTally
}

const space = 'monitor.task'

/** Claims a task and renews the claim while the report runs. `busy`: another report has it. `duplicate`: it is done. */
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
  // If the claim is lost, two reports may run. Every write is conditional, so nothing is notified twice.
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

/** The parts that decide and write batches. */
export interface BatchParts {
  readonly store: MonitorStore
  readonly rules: RuleCache
  readonly notifier: { wake(topic: string): void }
  readonly tally: OnceTally
  readonly eventKeepMs: number
  readonly mint: Mint
}

/** Subjects of one source and group. A reconcile uses their known states. */
export interface BatchAsk {
  readonly taskId: string
  readonly source: string
  readonly group: string
  readonly observedAt: number
  readonly isReconcile: boolean
  readonly seen: readonly Seen[]
}

/** A try fails only because another writer succeeded. This many failures in a row have another cause. */
const maxTries = 60

/**
 * Decides on the known states and writes the result, on the condition that nothing of them changed meanwhile. Otherwise
 * it reads and decides again. No writer waits for another, and of several at the same time one always succeeds.
 */
export async function runBatch(parts: BatchParts, ask: BatchAsk): Promise<readonly Planned[]> {
  const taken = new Set<string>()
  for (let tries = 0; tries < maxTries; tries++) {
    if (tries > 0) await sleep(Math.random() * Math.min(5 * tries, 100))
    const made = await planOnce(parts, ask, taken)
    if (made === undefined) continue
    const { planned, batch } = made
    const answer = isEmpty(batch) ? ({ status: 'written' } as const) : await write(parts.store, batch)
    if (answer.status === 'written') {
      if (batch.jobs.length > 0) parts.notifier.wake(queueTopic(notifyQueue))
      count(parts.tally, planned, taken)
      return planned
    }
    if (answer.status === 'duplicate') for (const event of answer.events) taken.add(event)
  }
  throw new SignalboxError(
    'store_busy',
    `The subjects of task "${ask.taskId}" kept changing while this batch was decided, so it was not written. Report again.`,
  )
}

/** Returns undefined if the rules changed and must be read again. */
async function planOnce(
  { store, rules, eventKeepMs, mint }: BatchParts,
  ask: BatchAsk,
  taken: ReadonlySet<string>,
): Promise<Plan | undefined> {
  const book = await rules.book()
  const near = [...book.subscribers.values()].filter(({ matcher }) => matcher.isNear(ask.source, ask.group))
  const subjects = ask.seen.map(({ subject }) => subject)
  const known = await store.known({ subjects, throttles: throttled(near) })
  if (known.revision !== book.revision) {
    rules.drop()
    return undefined
  }
  const present = ask.isReconcile ? asKnown(ask.seen, known) : { seen: ask.seen, known }
  const made = plan({ ...ask, ...present, book, near, taken, eventKeepMs, mint })
  return made.heard.size === 0 ? made : withHeard(store, made)
}

function asKnown(
  seen: readonly Seen[],
  known: Known,
): { readonly seen: readonly Seen[]; readonly known: Known } {
  const pairs = seen.flatMap((one, index) => {
    const subject = known.subjects[index]
    return subject ? [{ subject, seen: { ...one, state: subject.state, stateHash: subject.stateHash } }] : []
  })
  return {
    seen: pairs.map((pair) => pair.seen),
    known: { ...known, subjects: pairs.map(({ subject }) => subject) },
  }
}

/**
 * A message shows the last notified state. If that is not the previous state, read it from the earlier notification.
 */
async function withHeard(store: MonitorStore, made: Plan): Promise<Plan> {
  const ids = [...new Set([...made.heard.values()].map(({ notificationId }) => notificationId))]
  const records = await store.notifications({ ids, limit: ids.length })
  const byId = new Map(records.map((record) => [record.id, record]))
  const notifications = made.batch.notifications.map((notice) => {
    const heard = made.heard.get(notice.id)
    const record = heard && byId.get(heard.notificationId)
    return record ? { ...notice, from: record[heard.part] } : notice
  })
  return { ...made, batch: { ...made.batch, notifications } }
}

/** Treats a transaction that the database aborted, because others were faster, as overtaken. */
async function write(store: MonitorStore, batch: ReportBatch): Promise<BatchAnswer> {
  try {
    return await store.write(batch)
  } catch (error) {
    if (isSignalboxError(error, 'transaction_conflict')) return { status: 'overtaken' }
    throw error
  }
}

function isEmpty({ subjects, decisions, notifications, jobs }: ReportBatch): boolean {
  return subjects.length + decisions.length + notifications.length + jobs.length === 0
}

function count(tally: OnceTally, planned: readonly Planned[], taken: ReadonlySet<string>): void {
  for (const event of taken) tally.claimed('monitor.event', event, { status: 'done' })
  for (const { seen, decision, eventId } of planned) {
    if (eventId !== null) tally.claimed('monitor.event', eventId, { status: 'run' })
    for (const { notified, reason } of decision.verdicts) {
      if (!notified && reason !== 'pending' && reason !== 'notified_recently') continue
      tally.seen(Object.values(showPlace(seen)), !notified)
    }
  }
}
