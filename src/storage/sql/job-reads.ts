import type { EndedQuery, JobEnd, JobStore } from '../../jobs/index.ts'
import { expiredError } from '../token.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { countJobs, type EstimateJobs } from './job-counts.ts'
import { decodeJobRow, type JobRow } from './job-row.ts'
import { listJobs, reachJobs } from './job-search.ts'
import { readAll } from './operations.ts'
import { type Operation, one, operation } from './procedure.ts'
import { statement } from './statement.ts'

/** Reads jobs of one namespace, with their current state: see `liveState` in job-layout.ts. */
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

/** Jobs of a queue in the order in which they ended. A page starts at `from` (inclusive), or after the id `after`. */
const selectEnds = statement(
  'job_ends',
  { namespace: 'text', queue: 'text', from: 'integer', 'after?': 'text', limit: 'integer' },
  (d) => `
SELECT h.id, h.kind, ${d.text('h.state')} AS state, h.attempt, h.created_at, h.started_at, h.finished_at
FROM @job_history h ${d.byIndex('job_history_ended')}
WHERE h.finished_at >= :from AND h.namespace = :namespace AND h.queue = :queue
  {AND (h.finished_at > :from OR h.id > :after)}
ORDER BY h.finished_at, h.id LIMIT :limit`,
)

const end = columns<JobEnd>({
  ...{ id: 'text', kind: 'text', state: 'text', attempt: 'integer', createdAt: 'integer' },
  ...{ startedAt: 'integer | null', finishedAt: 'integer' },
})

export const listEnds: Operation<readonly [namespace: string, query: EndedQuery], readonly JobEnd[]> =
  readAll(
    'list ended jobs',
    (namespace: string, { queue, from, after, limit }: EndedQuery) =>
      selectEnds({ namespace, queue, from, after, limit }),
    end.decode,
  )
