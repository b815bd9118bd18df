import type { Duration } from '../../core/duration.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { flag, onlyKeys, text, whole } from '../../core/options.ts'
import type { JobToAdd } from '../api/add-options.ts'
import { type JobsNotifier, queueTopic, schedulesTopic } from '../api/jobs-api.ts'
import type { Job } from '../job.ts'
import type { Added, JobStore } from '../job-store.ts'
import {
  decodeDoc,
  encodeDoc,
  isSame,
  isSameWhen,
  jobOf,
  resolveSchedule,
  type ScheduleDoc,
  showSchedule,
  slotsOf,
} from './schedule-document.ts'
import type { NewSchedule, ScheduleRecord, ScheduleStore } from './schedule-store.ts'

/**
 * The verbs of schedules, which add jobs at set times. Servers, and boxes with a worker, run the schedules. Each slot
 * runs once, however many processes run the schedules and whichever crash.
 */
export interface Schedules {
  /**
   * Creates or changes a schedule. A repeated call changes nothing, so a program may call it at every start. The
   * schedule keeps its last run; a new cron line or rate counts from now. Throws `invalid_argument`; then nothing was
   * written.
   */
  set(name: string, options: ScheduleOptions): Promise<Schedule>
  find(name: string): Promise<Schedule | undefined>
  /** Returns a page of schedules by name. `cursor` is null at the end. */
  list(options?: ScheduleListOptions): Promise<{ items: readonly Schedule[]; cursor: string | null }>
  /** Removes the schedule; its jobs stay. Returns false if there was none. */
  remove(name: string): Promise<boolean>
  /** Stops the slots until the schedule is resumed. Throws `not_found`. */
  pause(name: string): Promise<Schedule>
  /** Runs from the next slot on and skips the slots of the pause. Throws `not_found`. */
  resume(name: string): Promise<Schedule>
  /** Adds the job now, out of turn, paused or not. The slots do not change. Throws `not_found`. */
  run(name: string): Promise<Added>
}

export interface ScheduleListOptions {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

export interface SchedulesParts {
  readonly schedules: ScheduleStore
  readonly store: Pick<JobStore, 'add'>
  readonly notifier: JobsNotifier
}

/** How often a change is tried again when the schedule ran or was changed between reading and writing. */
const maxTries = 20

export function createSchedules({ schedules, store, notifier }: SchedulesParts): Schedules {
  /** Writes the row that `next` makes of the present row. Undefined: no change. */
  async function change(
    name: string,
    next: (
      known: ScheduleRecord | undefined,
      now: number,
    ) => Promise<NewSchedule | undefined> | NewSchedule | undefined,
  ): Promise<Schedule> {
    for (let tries = 0; tries < maxTries; tries++) {
      const known = await schedules.find(name)
      const { now } = await schedules.nextDue()
      const changed = await next(known, now)
      if (changed === undefined) return showSchedule(known!)
      if ((await schedules.put(changed, known?.version ?? 0)) === null) continue
      notifier.wake(schedulesTopic)
      const written = known ?? { version: 0, lastSlotAt: null, lastFiredAt: null, createdAt: now }
      // If another caller removed it at once, show it as written.
      return showSchedule((await schedules.find(name)) ?? { ...written, ...changed })
    }
    throw new SignalboxError(
      'conflict',
      `Schedule "${name}" was changed ${maxTries} times meanwhile. Try again.`,
    )
  }

  return {
    async set(given, options) {
      const name = text('schedule.name', given)
      return change(name, async (known, now) => {
        const wanted = await resolveSchedule(options, now)
        const paused = options.paused === undefined ? undefined : flag('schedule.paused', options.paused)
        const old = known && decodeDoc(known)
        const isPaused = paused ?? known?.isPaused ?? false
        if (old !== undefined && isSame(old, wanted) && isPaused === known!.isPaused) return undefined
        const keeps = old !== undefined && isSameWhen(old, wanted)
        // A rate keeps its anchor, and a due slot stays due.
        const doc = keeps ? { ...wanted, when: old.when } : wanted
        const isDue = known?.nextAt != null && known.nextAt <= (wanted.endAt ?? Number.POSITIVE_INFINITY)
        const stays = keeps && known!.isPaused === isPaused && (old.endAt === wanted.endAt || isDue)
        const nextAt = stays ? known!.nextAt : slotsOf(doc).next(now)
        return { name, doc: encodeDoc(doc), isPaused, nextAt }
      })
    },

    async find(name) {
      const record = await schedules.find(text('schedule.name', name))
      return record && showSchedule(record)
    },

    async list(options = {}) {
      onlyKeys('list', options, ['limit', 'cursor'])
      const limit = whole('list.limit', options.limit ?? 50, { min: 1, max: 500 })
      const { cursor } = options
      const after = cursor === undefined || cursor === null ? undefined : decodeCursor(cursor)
      const records = await schedules.list({ limit: limit + 1, ...(after === undefined ? {} : { after }) })
      const page = records.slice(0, limit)
      return {
        items: page.map(showSchedule),
        cursor: records.length > limit ? encodeCursor(page.at(-1)!.name) : null,
      }
    },

    remove: async (name) => schedules.remove(text('schedule.name', name)),

    pause: async (name) =>
      change(text('schedule.name', name), (known) => {
        if (known === undefined) throw notFound(name)
        return known.isPaused ? undefined : { name, doc: known.doc, isPaused: true, nextAt: known.nextAt }
      }),

    resume: async (name) =>
      change(text('schedule.name', name), (known, now) => {
        if (known === undefined) throw notFound(name)
        if (!known.isPaused) return undefined
        return { name, doc: known.doc, isPaused: false, nextAt: slotsOf(readable(known)).next(now) }
      }),

    async run(name) {
      const known = await schedules.find(text('schedule.name', name))
      if (known === undefined) throw notFound(name)
      const job = jobOf(name, readable(known), null)
      // Add the job first: a repeated request adds it only once. The time of the run is only shown to users.
      const [added] = await store.add([job])
      notifier.wake(queueTopic(job.queue))
      const { version: seen, nextAt } = known
      const marked = schedules.fire({ name, seen, force: true, nextAt, slotAt: null, jobs: [] })
      await marked.catch(() => undefined)
      return added!
    },
  }
}

/** For jobs without a schedule store. */
export const absentSchedules: ScheduleStore = {
  put: refuseAbsent,
  remove: refuseAbsent,
  find: refuseAbsent,
  list: refuseAbsent,
  due: refuseAbsent,
  nextDue: refuseAbsent,
  fire: refuseAbsent,
}

async function refuseAbsent(): Promise<never> {
  throw new SignalboxError('conflict', 'There is no schedule store here; use the jobs of a box.')
}

function readable(record: ScheduleRecord): ScheduleDoc {
  const doc = decodeDoc(record)
  if (doc !== undefined) return doc
  throw new SignalboxError(
    'undecodable',
    `The stored schedule "${record.name}" is unreadable. Set it again, or remove it.`,
  )
}

function encodeCursor(name: string): string {
  return Buffer.from(name).toString('base64url')
}

function decodeCursor(cursor: unknown): string {
  const name = /^[\w-]+$/.test(String(cursor)) ? Buffer.from(String(cursor), 'base64url').toString() : ''
  if (name !== '') return name
  throw invalidArgument('list.cursor must be the cursor of a previous page.', 'list.cursor')
}

function notFound(name: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no schedule "${name}": it was never set, or it was removed.`,
  )
}

/** A schedule as its users see it. Instants are epoch milliseconds of the store's clock. */
export interface Schedule {
  readonly name: string
  /** Null for a fixed rate. */
  readonly cron: string | null
  readonly timeZone: string | null
  /** Null for a cron line. */
  readonly everyMs: number | null
  /** The first slot of a fixed rate. */
  readonly startAt: number | null
  /** No slot after it counts. */
  readonly endAt: number | null
  readonly catchUp: CatchUp
  readonly job: ScheduledJob
  readonly paused: boolean
  /** The next slot; null: no further slot, or the schedule is paused. */
  readonly nextAt: number | null
  /** The newest slot that ran. */
  readonly lastSlotAt: number | null
  /** The time of its last run, in turn or out of turn. */
  readonly lastFiredAt: number | null
  readonly createdAt: number
}

/** The job that each run adds. */
export type ScheduledJob = Pick<
  Job,
  ScheduledKey | 'kind' | 'queue' | 'payload' | 'priority' | 'uniqueKey' | 'maxAttempts' | 'backoff'
>
type ScheduledKey = 'timeoutMs' | 'tags' | 'limitKey' | 'lock'

/**
 * What happens to missed slots: `one` run for all of them, `all` of them (at most the newest hundred), or `none`. A
 * slot is missed when a later slot is due too, or after a minute.
 */
export type CatchUp = 'none' | 'one' | 'all'

/** The times of a schedule, and the job that it adds. */
export type ScheduleOptions = (CronOptions | RateOptions) & {
  /**
   * The job that each run adds, as an object or from a definition's `job`. It has no time: the schedule sets the time.
   */
  readonly job: Omit<JobToAdd, keyof Pick<JobToAdd, 'runAt' | 'delayMs' | 'after' | 'ref'>>
  /** @default 'one' */
  readonly catchUp?: CatchUp | undefined
  /** No slot after it counts. @default none */
  readonly endAt?: number | Date | null | undefined
  /** @default unchanged; a new schedule is not paused */
  readonly paused?: boolean | undefined
}

export interface CronOptions {
  /** '0 9 * * 1-5': minute, hour, day of the month, month, day of the week; or six fields with the second first. */
  readonly cron: string
  /** @default 'UTC' */
  readonly timeZone?: string | undefined
  readonly everyMs?: undefined
  readonly startAt?: undefined
}

export interface RateOptions {
  /** From 100 ms to a year, or text like '1m'. */
  readonly everyMs: Duration
  /** The first slot; all others are whole multiples of `everyMs` after it. @default `everyMs` after its creation */
  readonly startAt?: number | Date | null | undefined
  readonly cron?: undefined
  readonly timeZone?: undefined
}
