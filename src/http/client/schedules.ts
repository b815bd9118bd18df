import {
  getSchedule,
  type ListSchedulesQuery,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  runSchedule,
  type SetScheduleBody,
  type ShapeOf,
  setSchedule,
} from '../contract/index.ts'
import { orUndefined } from './absent.ts'
import type { Client } from './client.ts'

/** A schedule as the server shows it. */
export type WireSchedule = ShapeOf<typeof getSchedule>['reply']

/** The verbs of schedules, over HTTP. */
export interface SchedulesClient {
  /** Makes a schedule, or changes it to this; said again it changes nothing. */
  set(name: string, options: Omit<SetScheduleBody, 'name'>): Promise<WireSchedule>
  find(name: string): Promise<WireSchedule | undefined>
  list(options?: ListSchedulesQuery): Promise<ShapeOf<typeof listSchedules>['reply']>
  /** False: there was none. */
  remove(name: string): Promise<boolean>
  pause(name: string): Promise<WireSchedule>
  resume(name: string): Promise<WireSchedule>
  /** Adds its job now, out of turn. */
  run(name: string): Promise<ShapeOf<typeof runSchedule>['reply']>
}

export function createSchedulesClient(client: Pick<Client, 'call'>): SchedulesClient {
  return {
    set: (name, options) => client.call(setSchedule, { body: { ...options, name } }),
    find: (name) => orUndefined(client.call(getSchedule, { params: { name } })),
    list: (query = {}) =>
      client.call(listSchedules, { query, maxReplyBytes: Number(query.limit ?? 50) * maxScheduleBytes }),
    remove: async (name) => (await client.call(removeSchedule, { params: { name } })).removed,
    pause: (name) => client.call(pauseSchedule, { params: { name } }),
    resume: (name) => client.call(resumeSchedule, { params: { name } }),
    run: (name) => client.call(runSchedule, { params: { name } }),
  }
}

/** A payload of 256 KiB may be escaped, and there is something around it. */
const maxScheduleBytes = 2 * 1_048_576
