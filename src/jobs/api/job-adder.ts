import { Batcher } from '../../core/batcher.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { type Alarm, createAlarm } from '../../core/notifier.ts'
import type { Added, ClaimedRecord, ClaimRequest, JobStore, NewJob } from '../job-store.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'
import { type JobsNotifier, queueTopic } from './jobs-api.ts'

/** Wakes workers for jobs that were added or handed back: at once if they are due, else when they fall due. */
export interface Announcer {
  announce(jobs: readonly Announced[]): void
  /** Stops waking workers, because the store may be closed next. */
  close(): void
}

type Announced = Pick<NewJob, 'queue' | 'due'>

/** Polling finds jobs that fall due later than this. */
const maxAlarmMs = 60_000

/** The topics to wake at once when these jobs are added. */
function topicsOf(jobs: readonly Announced[]): readonly string[] {
  const queues = new Set<string>()
  for (const job of jobs) if (isDue(job)) queues.add(job.queue)
  return Array.from(queues, queueTopic)
}

function isDue({ due }: Pick<NewJob, 'due'>): boolean {
  return !('delayMs' in due) || due.delayMs === 0
}

export function createAnnouncer(notifier: JobsNotifier): Announcer {
  const alarms = new Map<string, Alarm>()
  let isClosed = false

  function alarmFor(queue: string): Alarm {
    const found = alarms.get(queue)
    if (found !== undefined) return found
    // The alarm is removed after it fires, because there may be very many queues over time.
    const alarm = createAlarm(
      () => notifier.wake(queueTopic(queue)),
      () => alarms.delete(queue),
    )
    alarms.set(queue, alarm)
    return alarm
  }

  return {
    announce(jobs) {
      if (isClosed) return
      for (const { queue, due } of jobs)
        if ('delayMs' in due && due.delayMs > 0 && due.delayMs <= maxAlarmMs) alarmFor(queue).set(due.delayMs)
      for (const topic of topicsOf(jobs)) notifier.wake(topic)
    },
    close() {
      isClosed = true
      for (const alarm of alarms.values()) alarm.clear()
    },
  }
}

/**
 * Single adds that arrive during a write share the next one: one commit instead of many. A lone add waits for no other.
 * Two writes may be in flight, because one of them may wait for a unique key that a transaction of a caller holds.
 */
export function createAddBatcher(
  store: Pick<JobStore, 'add'>,
  activity?: Pick<JobActivity, 'added'>,
): Batcher<NewJob, Added> {
  return new Batcher({
    maxItems: 1_000,
    maxInFlight: 2,
    gatherMs: 5,
    isItemError,
    async run(jobs) {
      const added = await store.add(jobs, undefined, topicsOf(jobs))
      activity?.added(jobs, added)
      return added
    },
  })
}

/** Whether the error may concern one job only, and nothing was written. */
function isItemError(error: unknown): boolean {
  return (
    isSignalboxError(error) &&
    ['invalid_argument', 'seal_failed', 'conflict', 'too_large'].includes(error.code)
  )
}

/**
 * An idle worker of this process, for which the write that adds a job also claims it. The job is as durable as any
 * other, and the worker would have claimed it next anyway. One job at a time, so that a burst of adds still shares its
 * writes.
 */
export interface HandoverTarget {
  /** Reserves a slot and returns the claim; undefined if this worker is busy or does not handle such jobs. */
  offer(job: NewJob): ClaimRequest | undefined
  /** Takes the claimed job, or undefined if the offer was not used. Frees the reserved slot. */
  take(record: ClaimedRecord | undefined, sentAt: number): void
}

/** Creates the function that adds a job for an idle worker. Answers whether it did; if not, nothing was written. */
export function createHandover(
  store: JobStore,
  targets: Iterable<HandoverTarget>,
): (job: NewJob) => Promise<boolean> {
  let isBusy = false

  return async (job) => {
    if (store.addClaimed === undefined || isBusy || !isPlain(job)) return false
    for (const target of targets) {
      const request = target.offer(job)
      if (request === undefined) continue
      isBusy = true
      const sentAt = performance.now()
      let record: ClaimedRecord | undefined
      try {
        record = await store.addClaimed(job, request)
      } finally {
        isBusy = false
        target.take(record, sentAt)
      }
      return record !== undefined
    }
    return false
  }
}

function isPlain({ due, uniqueKey }: NewJob): boolean {
  return uniqueKey === null && 'delayMs' in due && due.delayMs === 0
}
