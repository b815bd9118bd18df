import type { JobStore } from '../../jobs/index.ts'
import { expiredError } from '../token.ts'
import type { Database } from './database.ts'
import { countJobs, type EstimateJobs } from './job-counts.ts'
import { listEnds } from './job-ends.ts'
import { decodeJobRow, type JobRow } from './job-row.ts'
import { listJobs, reachJobs } from './job-search.ts'
import { one, operation } from './procedure.ts'
import { statement } from './statement.ts'

/** Reads jobs of one namespace. A job is shown as what it is at this moment: see `liveState` in job-layout.ts. */
export function createJobReads(
  database: Database,
  namespace: string,
  estimate: EstimateJobs,
): Pick<JobStore, 'find' | 'list' | 'reach' | 'ends' | 'stats'> {
  return {
    find: (id) => database.run(findJob, [namespace, id]),
    list: (query) => database.run(listJobs, [namespace, query]),
    reach: (query) => database.run(reachJobs, [namespace, query]),
    ends: (query) => database.run(listEnds, [namespace, query]),
    stats: () => countJobs(database, namespace, estimate),
  }
}

const params = { namespace: 'text', id: 'text', expiredError: 'text' } as const
const isIt = (alias: string) => `${alias}.namespace = :namespace AND ${alias}.id = :id`

const selectJob = statement(
  'job_find',
  params,
  ({ jobs }) => `${jobs.find(isIt).join('\nUNION ALL ')} LIMIT 1`,
)

const findJob = operation({
  name: 'find a job',
  isRead: true,
  *procedure(namespace: string, id: string) {
    const row = yield* one<JobRow>(selectJob({ namespace, id, expiredError }))
    return row && decodeJobRow(row)
  },
})
