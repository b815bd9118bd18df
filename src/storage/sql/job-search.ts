import type { JobRecord, JobState, ListQuery, ReachQuery } from '../../jobs/index.ts'
import { expiredError } from '../token.ts'
import type { Wanted } from './job-layout.ts'
import { isOwnQueue } from './job-layout.ts'
import { decodeJobRow, type JobRow } from './job-row.ts'
import { many, type Operation, one, operation } from './procedure.ts'
import { statement } from './statement.ts'

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

export const listJobs: Operation<readonly [namespace: string, query: ListQuery], readonly JobRecord[]> =
  operation({
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

export const reachJobs: Operation<readonly [namespace: string, query: ReachQuery], string | null> = operation(
  {
    name: 'look how far a list reaches',
    isRead: true,
    *procedure(namespace: string, { before = aboveAll, rows, among }: ReachQuery) {
      const found = yield* one<{ id: string | null }>(
        reaches[among ?? 'both']({ namespace, before, skipped: rows - 1 }),
      )
      return found!.id
    },
  },
)
