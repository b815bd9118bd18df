import type { Duration } from '../../../core/duration.ts'
import type { Added, CatchUp, Schedule, ScheduleListOptions } from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import { object, oneOf, queryObject, type Schema, spanPattern, strictObject, Type } from '../schema.ts'
import { backoff, instant, type NameParams, name, orNull, type Page, pageOf, pageQuery } from '../values.ts'
import { type ScheduledJobBody, scheduledJob } from './jobs.ts'

/** The routes of schedules, which add jobs by the clock. */

const span = Type.Unsafe<Duration>(
  Type.Union([
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    Type.String({ pattern: spanPattern }),
  ]),
)
const catchUp = oneOf('none', 'one', 'all')

const scheduleSchema: Schema<Schedule> = object({
  name: Type.String(),
  cron: orNull(Type.String()),
  timeZone: orNull(Type.String()),
  everyMs: orNull(Type.Integer()),
  startAt: orNull(instant),
  endAt: orNull(instant),
  catchUp,
  job: Type.Object({
    kind: Type.String(),
    queue: Type.String(),
    payload: Type.Unknown(),
    priority: Type.Integer(),
    uniqueKey: orNull(Type.String()),
    maxAttempts: Type.Integer(),
    backoff,
    timeoutMs: orNull(Type.Integer()),
    tags: Type.Array(Type.String()),
    limitKey: orNull(Type.String()),
    lock: orNull(Type.Object({ operation: Type.String(), resource: Type.String() })),
  }),
  paused: Type.Boolean(),
  nextAt: orNull(instant),
  lastSlotAt: orNull(instant),
  lastFiredAt: orNull(instant),
  createdAt: instant,
})

export interface SetScheduleBody {
  readonly name: string
  readonly cron?: string | undefined
  readonly timeZone?: string | undefined
  readonly everyMs?: Duration | undefined
  readonly startAt?: number | null | undefined
  readonly endAt?: number | null | undefined
  readonly catchUp?: CatchUp | undefined
  readonly paused?: boolean | undefined
  readonly job: ScheduledJobBody
}

export const setSchedule: Route<{ body: SetScheduleBody; reply: Schedule }> = {
  ...route('jobs', 'setSchedule', 'POST /v1/schedules', 'admin'),
  summary: 'Create or replace a schedule. The same request again changes nothing.',
  description:
    'Either `cron` (five fields, or six with seconds first) with a `timeZone`, or `everyMs` with an optional ' +
    '`startAt`. Each run adds `job`. `catchUp` decides about slots that were missed.',
  body: strictObject({
    name,
    cron: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    timeZone: Type.Optional(name),
    everyMs: Type.Optional(span),
    startAt: Type.Optional(orNull(instant)),
    endAt: Type.Optional(orNull(instant)),
    catchUp: Type.Optional(catchUp),
    paused: Type.Optional(Type.Boolean()),
    job: scheduledJob,
  }),
  replies: { 200: scheduleSchema },
  problems: ['conflict'],
}

export const listSchedules: Route<{ query: ScheduleListOptions; reply: Page<Schedule> }> = {
  ...route('jobs', 'listSchedules', 'GET /v1/schedules', 'read'),
  summary: 'List schedules by name, with their next and last run.',
  query: queryObject({ ...pageQuery(1_024) }),
  replies: { 200: pageOf(scheduleSchema) },
}

export const getSchedule: Route<{ params: NameParams; reply: Schedule }> = {
  ...route('jobs', 'getSchedule', 'GET /v1/schedules/{name}', 'read'),
  summary: 'Get a schedule.',
  replies: { 200: scheduleSchema },
  problems: ['not_found'],
}

export const removeSchedule: Route<{ params: NameParams; reply: { readonly removed: boolean } }> = {
  ...route('jobs', 'removeSchedule', 'DELETE /v1/schedules/{name}', 'admin'),
  summary: 'Remove a schedule. Jobs that it added stay.',
  replies: { 200: object({ removed: Type.Boolean() }) },
}

export const pauseSchedule: Route<{ params: NameParams; reply: Schedule }> = {
  ...route('jobs', 'pauseSchedule', 'POST /v1/schedules/{name}/pause', 'admin'),
  summary: 'Pause a schedule: it runs no slot until it is resumed.',
  replies: { 200: scheduleSchema },
  problems: ['not_found', 'conflict'],
}

export const resumeSchedule: Route<{ params: NameParams; reply: Schedule }> = {
  ...route('jobs', 'resumeSchedule', 'POST /v1/schedules/{name}/resume', 'admin'),
  summary: 'Resume a schedule from its next slot on.',
  replies: { 200: scheduleSchema },
  problems: ['not_found', 'conflict'],
}

export const runSchedule: Route<{ params: NameParams; reply: Added }> = {
  ...route('jobs', 'runSchedule', 'POST /v1/schedules/{name}/run', 'admin'),
  summary: 'Add the job of a schedule now. Its slots do not change.',
  replies: {
    200: object({ id: Type.String(), duplicate: Type.Boolean() }),
    201: object({ id: Type.String(), duplicate: Type.Boolean() }),
  },
  problems: ['not_found'],
}
