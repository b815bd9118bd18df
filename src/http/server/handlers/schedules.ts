import { SignalboxError } from '../../../core/errors.ts'
import type { Schedule, ScheduleOptions } from '../../../jobs/index.ts'
import type * as wire from '../../contract/index.ts'
import type { Handler } from '../call.ts'
import { hidden } from '../log/redact.ts'
import { noRedactor, type Redactor } from '../request/redact-job.ts'

/** The routes of schedules, by their ids. */
export interface ScheduleHandlers {
  readonly setSchedule: Handler<typeof wire.setSchedule>
  readonly listSchedules: Handler<typeof wire.listSchedules>
  readonly getSchedule: Handler<typeof wire.getSchedule>
  readonly removeSchedule: Handler<typeof wire.removeSchedule>
  readonly pauseSchedule: Handler<typeof wire.pauseSchedule>
  readonly resumeSchedule: Handler<typeof wire.resumeSchedule>
  readonly runSchedule: Handler<typeof wire.runSchedule>
}

/** Whoever writes back what was shown would write the word for what is hidden in the place of what it hides. */
function refuseHidden(payload: unknown, redactor: Pick<Redactor, 'payload'>): void {
  if (redactor === noRedactor || !JSON.stringify(payload ?? null).includes(JSON.stringify(hidden))) return
  throw new SignalboxError(
    'invalid_argument',
    `schedule.job.payload holds "${hidden}", which is shown in the place of what is hidden here. Give the value itself.`,
    { details: { option: 'schedule.job.payload' } },
  )
}

/** Their jobs' payloads are shown as those of jobs are. */
export function scheduleHandlers(redactor: Pick<Redactor, 'payload'>): ScheduleHandlers {
  const shown = (schedule: Schedule): Schedule => {
    const { job } = schedule
    return { ...schedule, job: { ...job, payload: redactor.payload(job.payload) } }
  }
  return {
    async setSchedule({ body: { name, ...options }, jobs }) {
      refuseHidden(options.job.payload, redactor)
      // That cron and everyMs exclude each other is for the service to say.
      return { body: shown(await jobs.schedules.set(name, options as unknown as ScheduleOptions)) }
    },
    async listSchedules({ query, jobs }) {
      const { items, ...page } = await jobs.schedules.list(query)
      return { body: { ...page, items: items.map(shown) } }
    },
    async getSchedule({ params: { name }, jobs }) {
      const schedule = await jobs.schedules.find(name)
      if (schedule !== undefined) return { body: shown(schedule) }
      throw new SignalboxError(
        'not_found',
        `There is no schedule "${name}": it was never set, or it was removed.`,
      )
    },
    removeSchedule: async ({ params, jobs }) => ({
      body: { removed: await jobs.schedules.remove(params.name) },
    }),
    pauseSchedule: async ({ params, jobs }) => ({ body: shown(await jobs.schedules.pause(params.name)) }),
    resumeSchedule: async ({ params, jobs }) => ({ body: shown(await jobs.schedules.resume(params.name)) }),
    async runSchedule({ params, jobs }) {
      const added = await jobs.schedules.run(params.name)
      return { status: added.duplicate ? 200 : 201, body: added }
    },
  }
}
