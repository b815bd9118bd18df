import { checkSchedule, type Schedules } from '../../jobs/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf } from './defined.ts'

/** Schedules that are kept on a server elsewhere, and run there. */
export function createRemoteSchedules({ jobs: { schedules } }: Client): Schedules {
  return {
    ...schedules,
    async set(name, options) {
      // What is wrong with it is said here as it would be there; only here is the schema of a defined kind known.
      await checkSchedule(options)
      const { startAt, endAt, ...others } = options
      const body = {
        ...others,
        ...(startAt === undefined ? {} : { startAt: toInstant(startAt) }),
        ...(endAt === undefined ? {} : { endAt: toInstant(endAt) }),
      }
      return schedules.set(name, body as unknown as Parameters<typeof schedules.set>[1])
    },
    async list(options = {}) {
      const { cursor, limit } = objectOf('list', options)
      return schedules.list({
        ...(limit === undefined ? {} : { limit }),
        ...(cursor === undefined || cursor === null ? {} : { cursor }),
      })
    },
  }
}

function toInstant(value: number | Date | null): number | null {
  return value instanceof Date ? value.getTime() : value
}
