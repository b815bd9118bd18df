import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { queueTopic } from '../../jobs/index.ts'
import type { OnceTally } from '../../once/index.ts'
import type { BatchAnswer, Known, MonitorStore, ReportBatch } from '../monitor-store.ts'
import { type Mint, notifyQueue } from '../notification-queue.ts'
import { showPlace } from '../subject-forms.ts'
import type { RuleCache } from '../subscription-rules.ts'
import type { Seen } from './report.ts'
import { type Plan, type Planned, plan, throttled } from './report-plan.ts'

/** What batches are decided and written with. */
export interface BatchParts {
  readonly store: MonitorStore
  readonly rules: RuleCache
  readonly notifier: { wake(topic: string): void }
  readonly tally: OnceTally
  readonly eventKeepMs: number
  readonly mint: Mint
}

/** Subjects of one source and group. A reconcile takes the states that are known. */
export interface BatchAsk {
  readonly taskId: string
  readonly source: string
  readonly group: string
  readonly observedAt: number
  readonly isReconcile: boolean
  readonly seen: readonly Seen[]
}

/** Each try is lost only to another writer; this many in a row mean that something else is wrong. */
const mostTries = 60

/**
 * Decides on what is known and writes what follows, in one step that takes only if nothing of it changed meanwhile; else
 * it is read and decided again. No writer waits for another, and of those that race one always succeeds.
 */
export async function runBatch(parts: BatchParts, ask: BatchAsk): Promise<readonly Planned[]> {
  const taken = new Set<string>()
  for (let tries = 0; tries < mostTries; tries++) {
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

/** Undefined: the rules changed, and must be read again. */
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

/** A message says what its subscriber heard last, where that is not the state before: an earlier notification has it. */
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

/** A transaction that the database gave up, because others were quicker, is one that was overtaken. */
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
