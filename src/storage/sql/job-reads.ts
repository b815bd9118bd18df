import type { JobStore, QueueStats } from '../../jobs/index.ts'
import { expiredError } from '../token.ts'
import type { Database } from './database.ts'
import { listEnds } from './job-ends.ts'
import { decodeJobRow, type JobRow } from './job-row.ts'
import { listJobs, reachJobs } from './job-search.ts'
import { decodeLimits } from './limit-plan.ts'
import { type Operation, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/** Reads jobs of one namespace. A job is shown as what it is at this moment: see `liveState` in job-layout.ts. */
export function createJobReads(
  database: Database,
  namespace: string,
): Pick<JobStore, 'find' | 'list' | 'reach' | 'ends' | 'stats'> {
  return {
    find: (id) => database.run(findJob, [namespace, id]),
    list: (query) => database.run(listJobs, [namespace, query]),
    reach: (query) => database.run(reachJobs, [namespace, query]),
    ends: (query) => database.run(listEnds, [namespace, query]),
    stats: () => database.run(countJobs, [namespace]),
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

const selectCounts = statement(
  'job_counts',
  { namespace: 'text', 'readyToo?': 'boolean' },
  ({ jobs }) => jobs.counts,
)

const selectControls = statement(
  'job_controls',
  { namespace: 'text' },
  () => `
SELECT queue, paused_at, limits FROM @queue_control
WHERE namespace = :namespace AND (paused_at IS NOT NULL OR limits IS NOT NULL)`,
)

/** How many jobs of a queue are in one state, or of one kind of them. */
export interface JobCount {
  readonly queue: string
  readonly state: string
  readonly jobs: number | string
  readonly oldest: number | string | null
}

/** Also counts queues without jobs that have limits or are paused. `ready` has what the engine has counted before. */
export const countJobs: Operation<
  readonly [namespace: string, ready?: readonly JobCount[]],
  readonly QueueStats[]
> = operation({
  name: 'count jobs',
  isRead: true,
  *procedure(namespace: string, ready?: readonly JobCount[]) {
    const readyToo = ready === undefined ? true : undefined
    const [counts, controls] = yield* run(
      selectCounts({ namespace, readyToo }),
      selectControls({ namespace }),
    )
    return addUp([...(counts!.rows as JobCount[]), ...(ready ?? [])], controls!.rows as ControlRow[])
  },
})

interface ControlRow {
  readonly queue: string
  readonly paused_at: number | string | null
  readonly limits: string | null
}

type Stats = { -readonly [Key in keyof QueueStats]: QueueStats[Key] }

function addUp(counts: readonly JobCount[], controls: readonly ControlRow[]): readonly QueueStats[] {
  const queues = new Map<string, Stats>()
  const of = (queue: string): Stats => {
    const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0, oldestReadyAt: null }
    const known = queues.get(queue) ?? { queue, paused: false, limits: null, ...none }
    queues.set(queue, known)
    return known
  }
  for (const { queue, paused_at: pausedAt, limits } of controls) {
    const stats = of(queue)
    stats.paused = pausedAt !== null
    stats.limits = decodeLimits(limits) ?? null
  }
  for (const { queue, state, jobs, oldest } of counts) {
    if (state === 'cancelled') continue
    const stats = of(queue)
    stats[state as 'ready'] += Number(jobs)
    if (state === 'ready') stats.oldestReadyAt = Math.min(stats.oldestReadyAt ?? Infinity, Number(oldest))
  }
  return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}
