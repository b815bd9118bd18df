import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createAlarm, createNotifier } from '../../core/notifier.ts'
import { type JobsNotifier, queueTopic, schedulesTopic } from '../api/jobs-api.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'
import { decodeDoc, jobOf, type ScheduleDoc, slotsOf } from './schedule-document.ts'
import type { ScheduleRecord, ScheduleStore } from './schedule-store.ts'

export interface FiringParts {
  readonly schedules: ScheduleStore
  readonly notifier: JobsNotifier
  /** Counts the jobs that the schedules of this process add. @default not counted */
  readonly activity?: Pick<JobActivity, 'added'> | undefined
}

/**
 * Runs schedules when they are due by the store's clock. Any number of runners may exist, in any number of processes:
 * the store lets one of them advance a schedule and adds its jobs in the same step. A runner sleeps until the next
 * schedule is due, or until a wake-up, and polls every 5 s.
 */
export function createFiring({ schedules, notifier, activity }: FiringParts): Loop {
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  const unlisten = notifier.listen([schedulesTopic], () => own.wake())
  const loop = createLoop({
    name: 'jobs.schedules',
    idleMs: pollMs,
    notifier: own,
    clock: patientClock,
    async step({ signal, progress }) {
      // One query while nothing is due: a server may have a thousand namespaces.
      const { nextAt, now } = await schedules.nextDue()
      if (nextAt === null || signal.aborted) return 'idle'
      if (nextAt <= now && (await fireDue({ schedules, notifier, activity }, { signal, progress })) > 0)
        return 'more'
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

/** Runs up to a hundred due schedules and returns how many. A schedule that fails does not delay the others. */
export async function fireDue(
  { schedules, notifier, activity }: FiringParts,
  { signal, progress = () => undefined }: FiringStep = {},
): Promise<number> {
  const { schedules: due, now } = await schedules.due(pageSize)
  const errors: unknown[] = []
  for (const schedule of due) {
    if (signal?.aborted) break
    try {
      for (const queue of await fireOne(schedules, schedule, now, activity)) notifier.wake(queueTopic(queue))
    } catch (error) {
      errors.push(error)
    }
    progress()
  }
  if (errors.length > 0) throw errors[0]
  return due.length
}

/** Returns the queues that got jobs; none if another runner fired the schedule first. */
async function fireOne(
  store: ScheduleStore,
  schedule: ScheduleRecord,
  now: number,
  activity: FiringParts['activity'],
): Promise<readonly string[]> {
  const { name, doc: text, version: seen } = schedule
  const doc = decodeDoc(schedule)
  const plan = doc && tryPlan(doc, schedule.nextAt ?? now, now)
  if (plan === undefined) {
    // An operator must repair the schedule. Pause it: otherwise it stays first in every page.
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
  if (fired === null) return []
  activity?.added(jobs, fired.added)
  return [doc!.job.queue]
}

/** Returns undefined if the row was edited by hand and its cron line or time zone is invalid. */
function tryPlan(doc: ScheduleDoc, dueAt: number, now: number): SchedulePlan | undefined {
  try {
    return planSchedule(doc, dueAt, now)
  } catch {
    return undefined
  }
}

/** The runs of a due schedule. */
interface SchedulePlan {
  /** The slots to run, oldest first. */
  readonly slots: readonly number[]
  readonly nextAt: number | null
}

/** The most missed slots that run. */
const maxCaughtUp = 100
/** A slot that is due for longer than this was missed, not delayed. */
const missedAfterMs = 60_000

/** Decides which slots from `dueAt` up to now run, and when the schedule is due next. */
function planSchedule(doc: ScheduleDoc, dueAt: number, now: number): SchedulePlan {
  const slots = slotsOf(doc)
  const due = slots.newest(dueAt - 1, now, doc.catchUp === 'all' ? maxCaughtUp : 1)
  return {
    slots: doc.catchUp === 'none' ? due.filter((slot) => now - slot <= missedAfterMs) : due,
    nextAt: slots.next(now),
  }
}
