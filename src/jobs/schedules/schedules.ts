import { SignalboxError } from '../../core/errors.ts'
import { flag, onlyKeys, text, whole } from '../../core/options.ts'
import type { Added, JobStore } from '../job-store.ts'
import { type JobsNotifier, queueTopic, schedulesTopic } from '../jobs-parts.ts'
import type { Schedule, ScheduleOptions } from './schedule.ts'
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
 * The verbs of schedules: jobs that are added by the clock. Each slot is run once, however many boxes and servers look
 * after it and whichever of them dies; it is run by boxes that have a worker, and by servers.
 */
export interface Schedules {
  /**
   * Makes a schedule, or changes it to this. Said again it changes nothing, so a program may say it whenever it starts.
   * What ran last is kept; another line or rate counts from now on. Throws `invalid_argument`, and nothing is written.
   */
  set(name: string, options: ScheduleOptions): Promise<Schedule>
  find(name: string): Promise<Schedule | undefined>
  /** A page of schedules by name. `cursor` is null at the end. */
  list(options?: ScheduleListOptions): Promise<{ items: readonly Schedule[]; cursor: string | null }>
  /** False: there was none. Jobs that it added stay. */
  remove(name: string): Promise<boolean>
  /** No slot is run until it is resumed. Throws `not_found`. */
  pause(name: string): Promise<Schedule>
  /** Runs it from the next slot on; those that came meanwhile are not made up for. Throws `not_found`. */
  resume(name: string): Promise<Schedule>
  /** Adds its job now, out of turn, paused or not; its slots stay as they are. Throws `not_found`. */
  run(name: string): Promise<Added>
}

export interface ScheduleListOptions {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

export interface SchedulesParts {
  readonly schedules: ScheduleStore
  readonly store: Pick<JobStore, 'add'>
  readonly notifier: JobsNotifier
}

/** Between reading and writing another may have changed it, or it may have run; so often it is tried anew. */
const maxTries = 20

export function createSchedules({ schedules, store, notifier }: SchedulesParts): Schedules {
  /** Writes what `change` makes of the row as it is now; where that is undefined, nothing. */
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
      // Where it was removed again at once, as it was written.
      return showSchedule((await schedules.find(name)) ?? { ...written, ...changed })
    }
    throw new SignalboxError(
      'conflict',
      `Schedule "${name}" changed again and again meanwhile; try once more.`,
    )
  }

  return {
    async set(given, options) {
      const name = text('schedule.name', given)
      return change(name, async (known, now) => {
        const said = await resolveSchedule(options, now)
        const paused = options.paused === undefined ? undefined : flag('schedule.paused', options.paused)
        const old = known && decodeDoc(known)
        const isPaused = paused ?? known?.isPaused ?? false
        if (old !== undefined && isSame(old, said) && isPaused === known!.isPaused) return undefined
        const keeps = old !== undefined && isSameWhen(old, said)
        // A rate is counted on from where it was, and what is due stays due.
        const doc = keeps ? { ...said, when: old.when } : said
        const isDue = known?.nextAt != null && known.nextAt <= (said.endAt ?? Number.POSITIVE_INFINITY)
        const stays = keeps && known!.isPaused === isPaused && (old.endAt === said.endAt || isDue)
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
      // First the job, in a write that a request said twice makes once; when it ran is only for people to see.
      const [added] = await store.add([job])
      notifier.wake(queueTopic(job.queue))
      const { version: seen, nextAt } = known
      const marked = schedules.fire({ name, seen, force: true, nextAt, slotAt: null, jobs: [] })
      await marked.catch(() => undefined)
      return added!
    },
  }
}

/** For jobs without a place where schedules are kept. */
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
  throw new SignalboxError('conflict', 'Schedules are not kept here; use the jobs of a box.')
}

function readable(record: ScheduleRecord): ScheduleDoc {
  const doc = decodeDoc(record)
  if (doc !== undefined) return doc
  throw new SignalboxError(
    'undecodable',
    `What is kept of schedule "${record.name}" cannot be read. Set it anew, or remove it.`,
  )
}

function encodeCursor(name: string): string {
  return Buffer.from(name).toString('base64url')
}

function decodeCursor(cursor: unknown): string {
  const name = /^[\w-]+$/.test(String(cursor)) ? Buffer.from(String(cursor), 'base64url').toString() : ''
  if (name !== '') return name
  throw new SignalboxError('invalid_argument', 'list.cursor is not one that a page ended with.', {
    details: { option: 'list.cursor' },
  })
}

function notFound(name: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no schedule "${name}": it was never set, or it was removed.`,
  )
}
