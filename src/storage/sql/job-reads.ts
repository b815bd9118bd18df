import type { EndedQuery, JobEnd, JobState, JobStore, ListQuery, ReachQuery } from '../../jobs/index.ts'
import { expiredError } from '../token.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { countJobs, type EstimateJobs } from './job-counts.ts'
import { isOwnQueue, type Wanted } from './job-layout.ts'
import { decodeJobRow, type JobRow } from './job-row.ts'
import { readAll } from './operations.ts'
import { many, one, operation } from './procedure.ts'
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

const listEnds = readAll(
  'list ended jobs',
  (namespace: string, { queue, from, after, limit }: EndedQuery) =>
    selectEnds({ namespace, queue, from, after, limit }),
  end.decode,
)

/** No id is greater. */
const aboveAll = '\u{10ffff}'

/**
 * A page of a list, newest first. Each state has a separate statement, and so has the list of one queue. It reads only
 * the tables that can hold such jobs, with the index that fits. A single statement with "or it is not given" in each
 * condition could use no index.
 */
function createPage(wanted: Wanted) {
  const where = (alias: string) =>
    `${alias}.namespace = :namespace {AND ${alias}.id < :before} {AND ${alias}.id >= :downTo}
      ${wanted.of === 'all' ? '' : `AND ${alias}.queue = :queue`} {AND ${alias}.kind = :kind}`
  return statement(
    nameOf(wanted),
    {
      ...{ namespace: 'text', 'before?': 'text', 'downTo?': 'text', queue: 'text', 'kind?': 'text' },
      ...{ limit: 'integer', expiredError: 'text' },
    },
    (d) => d.firstOfAll(d.jobs.list(wanted, where), 'id DESC', ':limit'),
  )
}

const nameOf = ({ state, of }: Wanted) => `job_list_${state ?? 'any'}_${of}`

const states: readonly (JobState | undefined)[] = [
  ...([undefined, 'scheduled', 'waiting', 'ready', 'running', 'completed', 'dead', 'cancelled'] as const),
]
const pages = new Map(
  states.flatMap((state) =>
    (['all', 'queue', 'own'] as const).map((of) => [nameOf({ state, of }), createPage({ state, of })]),
  ),
)

const listJobs = operation({
  name: 'list jobs',
  isRead: true,
  *procedure(namespace: string, { queue, kind, state, before, downTo, limit }: ListQuery) {
    if (limit < 1) return []
    const of = queue === undefined ? 'all' : isOwnQueue(queue) ? 'own' : 'queue'
    const select = pages.get(nameOf({ state, of }))!
    const rows = yield* many<JobRow>(
      select({
        ...{ namespace, queue: queue ?? '', kind, downTo, limit, expiredError },
        // Planners estimate a range with both ends better.
        before: before ?? (downTo === undefined ? undefined : aboveAll),
      }),
    )
    return rows.map(decodeJobRow)
  },
})

function createReach(among: 'live' | 'ended' | 'both') {
  return statement(`job_reach_${among}`, { namespace: 'text', before: 'text', skipped: 'integer' }, () => {
    const tables = [
      ...(among === 'ended' ? [] : ['@job_queue']),
      ...(among === 'live' ? [] : ['@job_history']),
    ]
    const places = tables.map(
      (table, nr) => `SELECT * FROM (SELECT id FROM ${table} WHERE namespace = :namespace AND id < :before
    ORDER BY id DESC LIMIT 1 OFFSET :skipped) place${nr}`,
    )
    return `SELECT max(id) AS id FROM (${places.join(' UNION ALL ')}) places`
  })
}

const reaches = { live: createReach('live'), ended: createReach('ended'), both: createReach('both') }

const reachJobs = operation({
  name: 'look how far a list reaches',
  isRead: true,
  *procedure(namespace: string, { before = aboveAll, rows, among }: ReachQuery) {
    const found = yield* one<{ id: string | null }>(
      reaches[among ?? 'both']({ namespace, before, skipped: rows - 1 }),
    )
    return found!.id
  },
})
