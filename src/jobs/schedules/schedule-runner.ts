import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier } from '../../core/notifier.ts'
import { createAlarm } from '../api/due-alarm.ts'
import { type JobsNotifier, queueTopic, schedulesTopic } from '../jobs-parts.ts'
import { decodeDoc, jobOf, type ScheduleDoc } from './schedule-document.ts'
import { planSchedule, type SchedulePlan } from './schedule-plan.ts'
import type { ScheduleRecord, ScheduleStore } from './schedule-store.ts'

/** What firing needs. */
export interface FiringParts {
  readonly schedules: ScheduleStore
  readonly notifier: JobsNotifier
}

/**
 * Runs schedules when their time has come by the store's clock. Any number may do so at once, in any number of
 * processes: the store lets one of them move a schedule on and adds its jobs in the same step. It sleeps until the next
 * one is due, or a wake-up, and looks every 5 s anyway.
 */
export function createFiring({ schedules, notifier }: FiringParts): Loop {
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  const unlisten = notifier.listen([schedulesTopic], () => own.wake())
  const loop = createLoop({
    name: 'jobs.schedules',
    idleMs: pollMs,
    notifier: own,
    clock: patientClock,
    async step({ signal, progress }) {
      // One question while there is nothing to do: a server may look after a thousand namespaces.
      const { nextAt, now } = await schedules.nextDue()
      if (nextAt === null || signal.aborted) return 'idle'
      if (nextAt <= now && (await fireDue({ schedules, notifier }, { signal, progress })) > 0) return 'more'
      alarm.clear()
      if (nextAt - now < pollMs) alarm.set(Math.max(0, nextAt - now))
      return 'idle'
    },
  })
  loop.events.on('stopped', () => {
    unlisten()
    alarm.clear()
  })
  return loop
}

const pollMs = 5_000
const pageSize = 100

interface FiringStep {
  readonly signal?: AbortSignal
  readonly progress?: () => void
}

/** Runs up to a hundred schedules that are due; answers how many were. One that cannot be run holds up no other. */
export async function fireDue(
  { schedules, notifier }: FiringParts,
  { signal, progress = () => undefined }: FiringStep = {},
): Promise<number> {
  const { schedules: due, now } = await schedules.due(pageSize)
  const wrong: unknown[] = []
  for (const schedule of due) {
    if (signal?.aborted) break
    try {
      for (const queue of await fireOne(schedules, schedule, now)) notifier.wake(queueTopic(queue))
    } catch (error) {
      wrong.push(error)
    }
    progress()
  }
  if (wrong.length > 0) throw wrong[0]
  return due.length
}

/** Answers the queues that got jobs. That another was quicker is as good. */
async function fireOne(
  store: ScheduleStore,
  schedule: ScheduleRecord,
  now: number,
): Promise<readonly string[]> {
  const { name, doc: text, version: seen } = schedule
  const doc = decodeDoc(schedule)
  const plan = doc && tryPlan(doc, schedule.nextAt ?? now, now)
  if (plan === undefined) {
    // Nobody can run it before somebody mends it, and it would be the first in line for ever.
    await store.put({ name, doc: text, isPaused: true, nextAt: schedule.nextAt }, seen)
    return []
  }
  const { slots, nextAt } = plan
  if (slots.length === 0) {
    await store.put({ name, doc: text, isPaused: false, nextAt }, seen)
    return []
  }
  const jobs = slots.map((slotAt) => jobOf(name, doc!, slotAt))
  const fired = await store.fire({ name, seen, force: false, nextAt, slotAt: slots.at(-1)!, jobs })
  return fired === null ? [] : [doc!.job.queue]
}

/** Undefined where its line or zone, written by hand, cannot be read. */
function tryPlan(doc: ScheduleDoc, dueAt: number, now: number): SchedulePlan | undefined {
  try {
    return planSchedule(doc, dueAt, now)
  } catch {
    return undefined
  }
}
