import { type Alarm, createAlarm } from './alarm.ts'
import { type JobsBell, queueTopic } from './parts.ts'
import type { NewJob } from './store.ts'

/** Tells workers of jobs that were just added: now when they are due, else when they fall due. */
export interface Announcer {
  announce(jobs: readonly NewJob[]): void
  /** Tells nobody any more, whatever is still added: the store may be closed by then. */
  close(): void
}

/** What falls due later than this is left to polling. */
const maxAlarmMs = 60_000

export function createAnnouncer(bell: JobsBell): Announcer {
  const alarms = new Map<string, Alarm>()
  let isClosed = false

  function alarmFor(queue: string): Alarm {
    const found = alarms.get(queue)
    if (found !== undefined) return found
    // Queues come and go; an alarm with nothing to wait for is forgotten.
    const alarm = createAlarm(
      () => bell.ring(queueTopic(queue)),
      () => alarms.delete(queue),
    )
    alarms.set(queue, alarm)
    return alarm
  }

  return {
    announce(jobs) {
      if (isClosed) return
      const dueNow = new Set<string>()
      for (const { queue, due } of jobs) {
        if (!('delayMs' in due) || due.delayMs === 0) dueNow.add(queue)
        else if (due.delayMs <= maxAlarmMs) alarmFor(queue).set(due.delayMs)
      }
      for (const queue of dueNow) bell.ring(queueTopic(queue))
    },
    close() {
      isClosed = true
      for (const alarm of alarms.values()) alarm.clear()
    },
  }
}
