import { exactBelow } from '../../core/job-words.ts'
import type { QueueStats } from '../../jobs/index.ts'
import type { Database } from './database.ts'
import type { JobWalk, WalkName } from './job-layout.ts'
import { decodeLimits } from './limit-plan.ts'
import { many, operation, run } from './procedure.ts'
import { type Statement, statement } from './statement.ts'

/**
 * Counts the live and dead jobs of each queue, at a cost that does not grow with the size of a queue. Counts of a state
 * below `exact` are exact; larger counts are estimates.
 *
 * The operation walks each index in pieces, in the order of queues. It counts a queue that fills a whole piece
 * separately, up to `exact` jobs of each kind. For larger queues the engine estimates (`EstimateJobs`), and the walk
 * continues after the queue. One statement reads the first pieces of all walks, so the counts of a small store are from
 * one moment. The counts of a larger store are from a period.
 */
/** Tests lower these limits. */
export const countLimits: { exact: number; pieceRows: number } = {
  exact: exactBelow,
  pieceRows: 2_000,
}

/** Estimates how many jobs of a queue belong to one kind of a walk. */
export type EstimateJobs = (queue: string, kind: string) => Promise<Estimate>

export interface Estimate {
  readonly jobs: number
  /** For ready jobs: the oldest `run_at` within the first `oldestPriorities` priorities. */
  readonly oldest?: number | undefined
}

export const oldestPriorities = 20

/** The number of jobs of a queue in one state. */
interface JobCount {
  readonly queue: string
  readonly state: string
  readonly jobs: number | string
  readonly oldest: number | string | null
  readonly isEstimate?: boolean
}

const walkNames: readonly WalkName[] = ['live', 'ready', 'keyed', 'scheduled', 'waiting', 'running', 'dead']

function countPiece({ from, where, state, runAt }: JobWalk): string {
  const entries = (columns: string) => `
    SELECT q.queue, ${columns}${runAt} AS run_at FROM ${from}
    WHERE q.namespace = :namespace AND ${where} {AND q.queue > :after}
    ORDER BY q.queue LIMIT :pieceRows`
  return countBy('queue', state, entries)
}

function countKinds({ from, where, state, runAt, kinds }: JobWalk): string {
  return Object.entries(kinds)
    .map(([kind, { where: isOfKind, orderBy, state: ofKind = state }]) => {
      const entries = (columns: string) => `
    SELECT ${columns}${runAt} AS run_at FROM ${from}
    WHERE q.namespace = :namespace AND q.queue = :queue AND ${where} AND ${isOfKind}
    ORDER BY ${orderBy} LIMIT :exact`
      return `SELECT '${kind}' AS kind, of_${kind}.* FROM (${countBy('', ofKind, entries)}) of_${kind}`
    })
    .join('\nUNION ALL ')
}

/**
 * Counts entries. If all have the same state, it does not group by state: grouping takes MariaDB four times as long.
 */
function countBy(group: string, state: JobWalk['state'], entries: (columns: string) => string): string {
  const groups = [group, ...('by' in state ? ['state'] : [])].filter((name) => name !== '')
  const columns = [group, 'is' in state ? `'${state.is}' AS state` : 'state'].filter((name) => name !== '')
  return `
  SELECT ${columns.join(', ')}, COUNT(*) AS jobs, MIN(run_at) AS oldest
  FROM (${entries('by' in state ? `${state.by} AS state, ` : '')}) entries
  ${groups.length === 0 ? '' : `GROUP BY ${groups.join(', ')}`}`
}

const nothing = 'SELECT NULL LIMIT 0'

const selectFirst = statement(
  'job_counts',
  { namespace: 'text', 'after?': 'text', pieceRows: 'integer' },
  ({ jobs: { walks } }) =>
    `${Object.entries(walks)
      .map(([name, walk]) => `SELECT '${name}' AS walk, counted.* FROM (${countPiece(walk)}) counted`)
      .join('\nUNION ALL ')}
ORDER BY walk, queue`,
)

const selectPiece = byWalk((name) =>
  statement(
    `job_counts_${name}`,
    { namespace: 'text', 'after?': 'text', pieceRows: 'integer' },
    ({ jobs: { walks } }) => {
      const walk = walks[name]
      return walk === undefined ? nothing : `${countPiece(walk)} ORDER BY queue`
    },
  ),
)

const selectKinds = byWalk((name) =>
  statement(
    `job_counts_of_${name}`,
    { namespace: 'text', queue: 'text', exact: 'integer' },
    ({ jobs: { walks } }) => {
      const walk = walks[name]
      return walk === undefined ? nothing : countKinds(walk)
    },
  ),
)

function byWalk<Params>(
  make: (name: WalkName) => Statement<Params>,
): Readonly<Record<WalkName, Statement<Params>>> {
  return Object.fromEntries(walkNames.map((name) => [name, make(name)])) as Record<
    WalkName,
    Statement<Params>
  >
}

const selectControls = statement(
  'job_controls',
  { namespace: 'text' },
  () => `
SELECT queue, paused_at, limits FROM @queue_control
WHERE namespace = :namespace AND (paused_at IS NOT NULL OR limits IS NOT NULL)`,
)

const countFirst = operation({
  name: 'count jobs',
  isRead: true,
  *procedure(namespace: string, pieceRows: number) {
    const [counts, controls] = yield* run(
      selectFirst({ namespace, pieceRows }),
      selectControls({ namespace }),
    )
    return {
      counts: counts!.rows as readonly (JobCount & { readonly walk: WalkName })[],
      controls: controls!.rows as readonly ControlRow[],
    }
  },
})

const countNext = operation({
  name: 'count more jobs',
  isRead: true,
  *procedure(namespace: string, walk: WalkName, after: string, pieceRows: number) {
    return yield* many<JobCount>(selectPiece[walk]({ namespace, after, pieceRows }))
  },
})

interface KindCount {
  readonly kind: string
  readonly state: string
  readonly jobs: number | string
  readonly oldest: number | string | null
}

const countQueue = operation({
  name: 'count the jobs of a queue',
  isRead: true,
  *procedure(namespace: string, walk: WalkName, queue: string, exact: number) {
    return yield* many<KindCount>(selectKinds[walk]({ namespace, queue, exact }))
  },
})

/** Counts all queues, including queues without jobs that have limits or are paused. */
export async function countJobs(
  database: Database,
  namespace: string,
  estimate: EstimateJobs,
): Promise<readonly QueueStats[]> {
  const { exact, pieceRows } = countLimits
  const { counts: first, controls } = await database.run(countFirst, [namespace, pieceRows])
  const counts: JobCount[] = []

  /** Counts a queue that fills a whole piece. */
  async function countLarge(walk: WalkName, queue: string): Promise<void> {
    const rows = await database.run(countQueue, [namespace, walk, queue, exact])
    for (const [kind, ofKind] of Map.groupBy(rows, (row) => row.kind)) {
      if (sumOf(ofKind) < exact) {
        counts.push(...ofKind.map((row) => ({ ...row, queue })))
        continue
      }
      const { jobs: about, oldest: first } = await estimate(queue, kind)
      const factor = Math.max(1, about / exact)
      for (const { state, jobs, oldest } of ofKind)
        counts.push({
          ...{ queue, state, jobs: rounded(Number(jobs) * factor), isEstimate: true },
          oldest: oldest === null ? null : Math.min(Number(oldest), first ?? Infinity),
        })
    }
  }

  for (const walk of walkNames) {
    let piece: readonly JobCount[] = first.filter((row) => row.walk === walk)
    while (sumOf(piece) >= pieceRows) {
      const cut = piece.at(-1)!.queue
      const whole = piece.filter(({ queue }) => queue !== cut)
      counts.push(...whole)
      if (whole.length === 0) await countLarge(walk, cut)
      // SQLite reads in this thread: let other work run.
      await new Promise((resolve) => setImmediate(resolve))
      piece = await database.run(countNext, [namespace, walk, whole.at(-1)?.queue ?? cut, pieceRows])
    }
    counts.push(...piece)
  }
  return addUp(counts, controls)
}

function sumOf(counts: readonly Pick<JobCount, 'jobs'>[]): number {
  return counts.reduce((sum, { jobs }) => sum + Number(jobs), 0)
}

/** Rounds an estimate to the precision that it has. */
function rounded(jobs: number): number {
  const step = Math.max(1, countLimits.exact / 10)
  return Math.round(jobs / step) * step
}

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
    const known = queues.get(queue) ?? { queue, paused: false, limits: null, ...none, approximate: false }
    queues.set(queue, known)
    return known
  }
  for (const { queue, paused_at: pausedAt, limits } of controls) {
    const stats = of(queue)
    stats.paused = pausedAt !== null
    stats.limits = decodeLimits(limits) ?? null
  }
  for (const { queue, state, jobs, oldest, isEstimate = false } of counts) {
    if (state === 'cancelled') continue
    const stats = of(queue)
    stats[state as 'ready'] += Number(jobs)
    if (isEstimate) stats.approximate = true
    if (state === 'ready' && oldest !== null)
      stats.oldestReadyAt = Math.min(stats.oldestReadyAt ?? Infinity, Number(oldest))
  }
  return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}
