import type { Duration } from '../../../core/duration.ts'
import type { Added, CatchUp, Schedule } from '../../../jobs/index.ts'
import { type Page, pageOf, pageQuery } from '../page.ts'
import type { Route } from '../route.ts'
import { type Schema, schemaFor, spanPattern, strict, Type } from '../schema.ts'
import { backoff, instant, name, orNull } from '../values.ts'
import { type ScheduledJobBody, scheduledJob } from './jobs.ts'

/** The routes of schedules: jobs that are added by the clock. */

const span = Type.Unsafe<Duration>(
  Type.Union([
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    Type.String({ pattern: spanPattern }),
  ]),
)
const catchUp = Type.Union([Type.Literal('none'), Type.Literal('one'), Type.Literal('all')])

const schedule = Type.Object({
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
const scheduleSchema: Schema<Schedule> = schemaFor<Schedule>()(schedule)

interface ScheduleParams {
  readonly name: string
}
const scheduleParams: Schema<ScheduleParams> = schemaFor<ScheduleParams>()(Type.Object({ name }, strict))

export interface SetScheduleBody {
  readonly name: string
  readonly cron?: string
  readonly timeZone?: string
  readonly everyMs?: Duration
  readonly startAt?: number | null
  readonly endAt?: number | null
  readonly catchUp?: CatchUp
  readonly paused?: boolean
  readonly job: ScheduledJobBody
}

export const setSchedule: Route<{ body: SetScheduleBody; reply: Schedule }> = {
  id: 'setSchedule',
  method: 'POST',
  path: '/v1/schedules',
  scope: 'admin',
  module: 'jobs',
  summary: 'Make a schedule, or change it to this; said again it changes nothing.',
  description:
    'Either `cron` (five fields, or six with the second first) with a `timeZone`, or `everyMs` with an optional `startAt`. Each run adds `job`. `catchUp` says what becomes of slots that nobody was there to run.',
  body: schemaFor<SetScheduleBody>()(
    Type.Object(
      {
        name,
        cron: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
        timeZone: Type.Optional(name),
        everyMs: Type.Optional(span),
        startAt: Type.Optional(orNull(instant)),
        endAt: Type.Optional(orNull(instant)),
        catchUp: Type.Optional(catchUp),
        paused: Type.Optional(Type.Boolean()),
        job: scheduledJob,
      },
      strict,
    ),
  ),
  replies: { 200: scheduleSchema },
  mutates: true,
  problems: ['conflict'],
}

export interface ListSchedulesQuery {
  readonly limit?: number
  readonly cursor?: string
}

export const listSchedules: Route<{ query: ListSchedulesQuery; reply: Page<Schedule> }> = {
  id: 'listSchedules',
  method: 'GET',
  path: '/v1/schedules',
  scope: 'read',
  module: 'jobs',
  summary: 'List schedules by name, each with its next and its last run.',
  query: schemaFor<ListSchedulesQuery>()(Type.Object({ ...pageQuery(1_024) }, strict)),
  replies: { 200: pageOf(scheduleSchema) },
  mutates: false,
}

export const getSchedule: Route<{ params: ScheduleParams; reply: Schedule }> = {
  id: 'getSchedule',
  method: 'GET',
  path: '/v1/schedules/{name}',
  scope: 'read',
  module: 'jobs',
  summary: 'Look at one schedule.',
  params: scheduleParams,
  replies: { 200: scheduleSchema },
  mutates: false,
  problems: ['not_found'],
}

export const removeSchedule: Route<{ params: ScheduleParams; reply: { readonly removed: boolean } }> = {
  id: 'removeSchedule',
  method: 'DELETE',
  path: '/v1/schedules/{name}',
  scope: 'admin',
  module: 'jobs',
  summary: 'Remove a schedule. Jobs that it added stay.',
  params: scheduleParams,
  replies: { 200: schemaFor<{ readonly removed: boolean }>()(Type.Object({ removed: Type.Boolean() })) },
  mutates: true,
}

export const pauseSchedule: Route<{ params: ScheduleParams; reply: Schedule }> = {
  id: 'pauseSchedule',
  method: 'POST',
  path: '/v1/schedules/{name}/pause',
  scope: 'admin',
  module: 'jobs',
  summary: 'Run no slot of a schedule until it is resumed.',
  params: scheduleParams,
  replies: { 200: scheduleSchema },
  mutates: true,
  problems: ['not_found', 'conflict'],
}

export const resumeSchedule: Route<{ params: ScheduleParams; reply: Schedule }> = {
  id: 'resumeSchedule',
  method: 'POST',
  path: '/v1/schedules/{name}/resume',
  scope: 'admin',
  module: 'jobs',
  summary: 'Run a schedule again, from its next slot on.',
  params: scheduleParams,
  replies: { 200: scheduleSchema },
  mutates: true,
  problems: ['not_found', 'conflict'],
}

export const runSchedule: Route<{ params: ScheduleParams; reply: Added }> = {
  id: 'runSchedule',
  method: 'POST',
  path: '/v1/schedules/{name}/run',
  scope: 'admin',
  module: 'jobs',
  summary: 'Add the job of a schedule now, out of turn; its slots stay as they are.',
  params: scheduleParams,
  replies: {
    200: schemaFor<Added>()(Type.Object({ id: Type.String(), duplicate: Type.Boolean() })),
    201: schemaFor<Added>()(Type.Object({ id: Type.String(), duplicate: Type.Boolean() })),
  },
  mutates: true,
  problems: ['not_found'],
}
