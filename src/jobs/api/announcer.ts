import type { NewJob } from '../job-store.ts'
import { type JobsNotifier, queueTopic } from '../jobs-parts.ts'
import { type Alarm, createAlarm } from './due-alarm.ts'

/** Tells workers of jobs that were just added, or put back: now when they are due, else when they fall due. */
export interface Announcer {
  announce(jobs: readonly Announced[]): void
  /** Tells nobody any more, whatever is still added: the store may be closed by then. */
  close(): void
}

/** What it has to know of a job. */
export type Announced = Pick<NewJob, 'queue' | 'due'>

/** What falls due later than this is left to polling. */
const maxAlarmMs = 60_000

/** What is woken at once when these are added. */
export function topicsOf(jobs: readonly Announced[]): readonly string[] {
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
    // Queues come and go; an alarm with nothing to wait for is forgotten.
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
