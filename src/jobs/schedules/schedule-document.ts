import { invalidArgument } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { duration, flag, instant, oneOf, onlyKeys, show } from '../../core/options.ts'
import { addKeys, checkJobToAdd, definedBy, resolveNewJob, resolveTags } from '../api/add-options.ts'
import { encodeMeta } from '../job-facts.ts'
import type { NewJob } from '../job-store.ts'
import { decodeBackoff } from '../lifecycle.ts'
import { createCron, createRate, endSlots, type Slots } from './schedule-slots.ts'
import type { NewSchedule, ScheduleRecord } from './schedule-store.ts'
import type { CatchUp, Schedule, ScheduleOptions } from './schedules.ts'

/** The JSON document in a schedule's row: its times, its job, and how it catches up. Every field is checked. */
export interface ScheduleDoc {
  readonly when: CronWhen | RateWhen
  readonly catchUp: CatchUp
  readonly endAt: number | null
  readonly job: Omit<NewJob, 'id' | 'due' | 'meta'> & {
    readonly tags: readonly string[]
    readonly limitKey?: string
  }
}

export interface CronWhen {
  readonly cron: string
  readonly timeZone: string
}

export interface RateWhen {
  readonly everyMs: number
  /** The option of the caller. */
  readonly startAt: number | null
  /** All slots count from here: `startAt`, or the time of creation. */
  readonly anchorAt: number
}

const keys = ['cron', 'timeZone', 'everyMs', 'startAt', 'job', 'catchUp', 'endAt', 'paused']
const timeKeys = ['runAt', 'delayMs', 'after', 'ref'] as const
const jobKeys = addKeys.filter((key) => !(timeKeys as readonly string[]).includes(key))
const minEveryMs = 100
const maxEveryMs = 31_557_600_000

/**
 * Checks a schedule and fills in the defaults. A fixed rate without a start counts from `now`. Throws
 * `invalid_argument`.
 */
export async function resolveSchedule(options: ScheduleOptions, now: number): Promise<ScheduleDoc> {
  onlyKeys('schedule', options, keys)
  const { catchUp = 'one', endAt } = options
  const doc: ScheduleDoc = {
    when: resolveWhen(options, now),
    catchUp: oneOf('schedule.catchUp', catchUp, ['none', 'one', 'all']),
    endAt: endAt === undefined || endAt === null ? null : instant('schedule.endAt', endAt),
    job: await resolveJob(options.job),
  }
  // Refuses a cron line that is invalid or names no day.
  slotsOf(doc)
  return doc
}

/** Throws `invalid_argument` for what `schedules.set` would refuse. */
export async function checkSchedule(options: ScheduleOptions): Promise<void> {
  await resolveSchedule(options, 0)
  if (options.paused !== undefined) flag('schedule.paused', options.paused)
}

function resolveWhen(
  { cron, timeZone, everyMs, startAt }: ScheduleOptions,
  now: number,
): CronWhen | RateWhen {
  if ((cron === undefined) === (everyMs === undefined)) {
    throw invalidArgument('schedule needs either cron or everyMs, one of the two.', 'schedule.cron')
  }
  if (cron !== undefined) {
    if (startAt !== undefined)
      throw invalidArgument('schedule.startAt goes with everyMs, not with cron.', 'schedule.startAt')
    return { cron, timeZone: timeZone ?? 'UTC' }
  }
  if (timeZone !== undefined) {
    throw invalidArgument(
      'schedule.timeZone goes with cron; a fixed rate is the same everywhere.',
      'schedule.timeZone',
    )
  }
  const start = startAt === undefined || startAt === null ? null : instant('schedule.startAt', startAt)
  return {
    everyMs: duration('schedule.everyMs', everyMs, { min: minEveryMs, max: maxEveryMs }),
    startAt: start,
    anchorAt: start ?? now,
  }
}

async function resolveJob(job: ScheduleOptions['job']): Promise<ScheduleDoc['job']> {
  const name = 'schedule.job'
  if (typeof job !== 'object' || job === null) {
    throw invalidArgument(
      `${name} must be the job to add, such as { kind: 'report' }, not ${show(job)}.`,
      name,
    )
  }
  checkJobToAdd(name, job)
  for (const key of timeKeys) {
    if (!(key in job)) continue
    throw invalidArgument(
      `${name} has ${key}, but the schedule sets the time of the job. Allowed fields: ${jobKeys.join(', ')}.`,
      `${name}.${key}`,
    )
  }
  const { id: _, due: __, meta: ___, ...record } = resolveNewJob(name, job.kind, job.payload, job)
  await job[definedBy]?.(name, record.payload)
  const tags = job.tags === undefined ? [] : resolveTags(`${name}.tags`, job.tags)
  return { ...record, tags, ...(job.limitKey && { limitKey: job.limitKey }) }
}

export function slotsOf({ when, endAt }: ScheduleDoc): Slots {
  const slots =
    'cron' in when
      ? createCron('schedule.cron', when.cron, when.timeZone)
      : createRate(when.everyMs, when.anchorAt)
  return endSlots(slots, endAt)
}

/** Whether the callers gave the same options for both. */
export function isSame(one: ScheduleDoc, other: ScheduleDoc): boolean {
  return JSON.stringify(givenOptions(one)) === JSON.stringify(givenOptions(other))
}

export function isSameWhen(one: ScheduleDoc, other: ScheduleDoc): boolean {
  return JSON.stringify(givenOptions(one).when) === JSON.stringify(givenOptions(other).when)
}

function givenOptions(doc: ScheduleDoc): ScheduleDoc {
  const { when } = doc
  return 'cron' in when ? doc : { ...doc, when: { ...when, anchorAt: when.startAt ?? 0 } }
}

/** The job of one run. `slotAt` null: out of turn. */
export function jobOf(name: string, { job }: ScheduleDoc, slotAt: number | null): NewJob {
  const { tags, limitKey, ...record } = job
  const lock = record.dependsOn?.lock
  return {
    ...record,
    id: createId(),
    due: slotAt === null ? { delayMs: 0 } : { runAt: slotAt },
    meta: encodeMeta({ tags, ...(limitKey && { limitKey }), ...(lock && { lock }), schedule: name, slotAt }),
  }
}

export function encodeDoc(doc: ScheduleDoc): string {
  return JSON.stringify(doc)
}

/** Returns undefined for a row that is damaged, or was edited by hand and is invalid. */
export function decodeDoc({ doc }: Pick<NewSchedule, 'doc'>): ScheduleDoc | undefined {
  try {
    const kept = JSON.parse(doc) as ScheduleDoc
    JSON.parse(kept.job.payload)
    return isComplete(kept) ? kept : undefined
  } catch {
    return undefined
  }
}

/** Whether stores accept its job. A job that they refuse would be tried again for ever. */
function isComplete({ when, job }: ScheduleDoc): boolean {
  const { queue, kind, priority, uniqueKey, maxAttempts, backoff, timeoutMs, tags } = job
  return (
    typeof when === 'object' &&
    [queue, kind, uniqueKey ?? '', backoff ?? ''].every((value) => typeof value === 'string') &&
    [priority, maxAttempts, timeoutMs ?? 0].every(Number.isSafeInteger) &&
    Array.isArray(tags)
  )
}

/** Converts a row into a schedule for users. Never throws: of an unreadable row it shows the columns. */
export function showSchedule(record: ScheduleRecord): Schedule {
  const { name, isPaused, lastSlotAt, lastFiredAt, createdAt } = record
  const doc = decodeDoc(record) ?? unreadable
  const {
    cron = null,
    timeZone = null,
    everyMs = null,
    startAt = null,
  } = doc.when as Partial<CronWhen & RateWhen>
  return {
    ...{ name, cron, timeZone, everyMs, startAt, endAt: doc.endAt, catchUp: doc.catchUp },
    job: showJob(doc.job),
    paused: isPaused,
    nextAt: isPaused ? null : record.nextAt,
    ...{ lastSlotAt, lastFiredAt, createdAt },
  }
}

function showJob({ payload, backoff, limitKey, dependsOn, ...job }: ScheduleDoc['job']): Schedule['job'] {
  const { kind, queue, priority, uniqueKey, maxAttempts, timeoutMs, tags } = job
  return {
    ...{ kind, queue, payload: JSON.parse(payload) as unknown, priority, uniqueKey, maxAttempts },
    ...{ backoff: decodeBackoff(backoff), timeoutMs, tags },
    limitKey: limitKey ?? null,
    lock: dependsOn?.lock ?? null,
  }
}

const unreadable: ScheduleDoc = {
  when: {} as CronWhen,
  catchUp: 'none',
  endAt: null,
  job: {
    ...{ queue: '?', kind: '?', payload: 'null', priority: 0, uniqueKey: null, maxAttempts: 1 },
    ...{ backoff: null, timeoutMs: null, tags: [] },
  },
}
