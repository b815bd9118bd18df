import type { JobState } from '../../jobs/index.ts'
import type { Dialect } from './dialect.ts'

/**
 * The tables in which an engine keeps jobs, and the index that each list uses. All SELECTs here return the columns of
 * `JobRow`. They may use `:namespace`, and `:expiredError`, the error of a job whose last lease expired.
 */
export interface JobLayout {
  /**
   * One SELECT without LIMIT for each table that may hold one job. `where(alias)` is the condition on the table with
   * that alias. One statement reads both tables, so that it never misses a job that moves from one to the other.
   */
  find(where: Where): readonly string[]
  /** The same for the jobs `:ids`, with only the columns `id`, `state` and `due_in_ms`. */
  readonly states: readonly string[]
  /** The columns that a job that does not run keeps when it ends: all except its state, finish time and error. */
  readonly carried: string
  /** Of a job `h` in the history: the tokens of its settled attempts, with the last one. */
  readonly settledTokens: string
  /** Of a job `h` in the history: its limit key. Undefined if the queue's table generates it. */
  readonly limitKey: string | undefined
  /** Deletes the jobs `:ids` from the history. */
  readonly removeEnded: string
  /** FROM and WHERE for the dead jobs of the namespace, as `h`, in the order of ids. */
  readonly dead: string
  /** Whether a cancellation request `c` is for the lease of its job `q`. */
  readonly isRequested: string
  /** Like `find`, for a page of a list: only the tables that may hold such jobs. */
  list(wanted: Wanted, where: Where): readonly string[]
  /** The indexes by which job-counts.ts counts jobs. Each live and each dead job is in exactly one of them. */
  readonly walks: Readonly<Partial<Record<WalkName, JobWalk>>>
  /**
   * The kinds of the ready jobs of `:queue`, read by its index, from the first `:limit` jobs of each kind or of the
   * queue. The columns are `kind`, `jobs`, and `oldest`, which is the first `run_at`.
   */
  readonly readyKinds: string
  /**
   * The column `namespace` of up to `:limit` namespaces in which a live job of `:queue` has a unique key. It steps from
   * namespace to namespace along the index of keys, so its time does not depend on the number of jobs.
   */
  readonly queued: string
  readonly limits: LimitLayout
}

/**
 * The SELECTs of a claim from a queue with limits (limit-claim.ts). Jobs have the columns `id`, `limit_key`, `priority`
 * and `run_at`. `{AND kind IN (:kinds)}` is for a claim that names kinds.
 */
export interface LimitLayout {
  /** `@job_queue q`, with the index of running jobs. */
  readonly running: string
  /** The first ready jobs: `:limit` in all, or `:limit` without a key and `:limit` with one. */
  readonly front: string
  /** The first `:limit` ready jobs without a key. */
  readonly keyless: string
  /**
   * The first ready job of each key, or of each key and kind, with its `kind`, ordered by key. It reads up to `:limit`
   * keys after `:after`, up to the key `:upTo`. MariaDB returns the first `:limit` jobs in the order of keys.
   */
  readonly heads: string
  /** For each row of the batch `:rows`: the first `v.wanted` ready jobs with the key `v.limit_key`. */
  readonly firsts: string
  /** The column with the time at which starts stop counting, and how much earlier than that time it is. */
  readonly expiry: { readonly column: string; readonly earlierMs: number }
  /** Deletes some starts of the queue that no longer count. */
  readonly forgetStarts: string
  /** The same for all queues of the namespace, if `forgetStarts` cannot. */
  readonly pruneStarts: string
}

export type WalkName = 'live' | 'ready' | 'keyed' | 'scheduled' | 'waiting' | 'running' | 'dead'

/** An index that holds jobs in the order of their queues. */
export interface JobWalk {
  /** The table, as `q`, with the index. */
  readonly from: string
  readonly where: string
  readonly state: ShownState
  /** The time since which a ready job waits. */
  readonly runAt: string
  /** All jobs of a queue belong to exactly one of these kinds. */
  readonly kinds: Readonly<Record<string, JobKind>>
}

/** A range of an index within a queue. */
export interface JobKind {
  readonly where: string
  /** The order in which the engine reads the range from its start. */
  readonly orderBy: string
  /** The state, if all jobs of the range have the same one. */
  readonly state?: { readonly is: JobState }
}

/** The current state of jobs: the same for all, or an SQL expression. */
export type ShownState = { readonly is: JobState } | { readonly by: string }

/** The parts of a dialect that these texts use. */
export type LayoutDialect = Pick<Dialect, 'now' | 'text' | 'integer' | 'greatest' | 'byKeys' | 'deleteFirst'>

export type Where = (alias: string) => string

/** Which jobs a list shows. */
export interface Wanted {
  readonly state: JobState | undefined
  /** Whether the list names a queue, and whether that queue is one of Signalbox's own (isOwnQueue). */
  readonly of: 'all' | 'queue' | 'own'
}

/** Ended jobs, as `h`. All engines keep them in one table. */
export function selectEnded(d: LayoutDialect, from = '@job_history h'): string {
  return `
SELECT h.id, h.queue, h.kind, h.payload, h.priority, h.unique_key, ${d.text('h.state')} AS state, h.attempt,
  h.max_attempts, h.hand_back_count, h.snooze_count, h.run_at, h.created_at, h.started_at, h.finished_at, h.worker_id,
  ${d.integer('NULL')} AS lease_ends_at, h.backoff, h.timeout_ms, h.meta, h.result, h.error, FALSE AS cancel_requested,
  h.cancel_ignored
FROM ${from}`
}

const isExpired = (now: string) => `(q.state = 'running' AND q.lease_ends_at <= ${now})`

/**
 * The current state of a job `q`, whether or not a worker has acted on it yet: a due job is ready, and a job whose
 * lease expired has the state that the next claim gives it. `c` is its cancellation request.
 */
export function liveState({ now, text }: Pick<LayoutDialect, 'now' | 'text'>): string {
  const expired = isExpired(now)
  return `CASE
    WHEN q.state = 'scheduled' AND q.run_at <= ${now} THEN 'ready'
    WHEN ${expired} AND c.job_id IS NOT NULL THEN 'cancelled'
    WHEN ${expired} AND q.attempt >= q.max_attempts THEN 'dead'
    WHEN ${expired} THEN 'ready'
    ELSE ${text('q.state')} END`
}

/**
 * Live jobs, as `q`, of an engine that keeps all of them in one table. `request` joins their cancellation requests `c`.
 */
export function selectLive(d: LayoutDialect, request: string, from = '@job_queue q'): string {
  const expired = isExpired(d.now)
  const isRunning = `q.state = 'running' AND NOT ${expired}`
  return `
SELECT q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, ${liveState(d)} AS state, q.attempt,
  q.max_attempts, q.hand_back_count, q.snooze_count, q.run_at, q.created_at, q.started_at,
  CASE WHEN ${expired} AND (c.job_id IS NOT NULL OR q.attempt >= q.max_attempts) THEN q.lease_ends_at END AS finished_at,
  q.worker_id, CASE WHEN ${isRunning} THEN q.lease_ends_at END AS lease_ends_at, q.backoff, q.timeout_ms, q.meta,
  NULL AS result,
  CASE WHEN ${expired} AND c.job_id IS NULL AND q.attempt >= q.max_attempts THEN :expiredError ELSE q.error END AS error,
  ${isRunning} AND c.job_id IS NOT NULL AS cancel_requested, FALSE AS cancel_ignored
FROM ${from} ${request}`
}

/** The condition for live jobs in each state at this moment; undefined: no live job can be in it. */
function liveWhere(now: string): Readonly<Record<JobState, string | undefined>> {
  const expired = isExpired(now)
  return {
    scheduled: `q.state = 'scheduled' AND q.run_at > ${now}`,
    ready: `(q.state = 'ready' OR (q.state = 'scheduled' AND q.run_at <= ${now})
      OR (${expired} AND q.attempt < q.max_attempts AND c.job_id IS NULL))`,
    waiting: `q.state = 'waiting'`,
    running: `q.state = 'running' AND q.lease_ends_at > ${now}`,
    completed: undefined,
    dead: `${expired} AND q.attempt >= q.max_attempts AND c.job_id IS NULL`,
    cancelled: `${expired} AND c.job_id IS NOT NULL`,
  }
}

/** The same for the history. The planner uses a partial index only if the statement repeats its condition literally. */
const endedWhere: Readonly<Partial<Record<JobState, string>>> = {
  completed: `h.state = 'completed'`,
  dead: `h.state = 'dead' AND h.state <> 'completed'`,
  cancelled: `h.state = 'cancelled' AND h.state <> 'completed'`,
}

/**
 * `list` for an engine with an index for each state. `tables` names the tables of live and of ended jobs, with the index
 * if the planner would choose another.
 */
export function listByState(
  d: LayoutDialect,
  request: string,
  tables: (wanted: Wanted) => { readonly live?: string; readonly ended?: string } = () => ({}),
): JobLayout['list'] {
  const liveIn = liveWhere(d.now)
  return (wanted, where) => {
    const { state, of } = wanted
    const isLive = state === undefined ? 'TRUE' : liveIn[state]
    const isEnded = state === undefined ? 'TRUE' : endedWhere[state]
    const own = (queue: string) => (of === 'own' ? ` AND ${isOwn(queue)}` : '')
    const { live, ended } = tables(wanted)
    return [
      ...(isLive
        ? [`${selectLive(d, request, live)} WHERE ${where('q')} AND ${isLive}${own('q.queue')}`]
        : []),
      ...(isEnded ? [`${selectEnded(d, ended)} WHERE ${where('h')} AND ${isEnded}${own('h.queue')}`] : []),
    ]
  }
}

/** The states of live jobs, as `q`, of an engine that keeps all of them in one table. */
export function selectLiveStates(d: LayoutDialect, request: string): string {
  return selectStates(d, liveState(d), '@job_queue', 'q', request)
}

export function selectEndedStates(d: LayoutDialect): string {
  return selectStates(d, d.text('h.state'), '@job_history', 'h')
}

/** The states of those jobs `:ids` that are in one table. */
function selectStates(d: LayoutDialect, state: string, from: string, alias: string, join = ''): string {
  const where = `${alias}.namespace = :namespace`
  return `
SELECT ${alias}.id, ${state} AS state, ${dueInMs(d, alias)}
${d.byKeys({ from, alias, where, key: `${alias}.id`, keys: ':ids', join })}`
}

/** The time until a job is due. */
function dueInMs({ now, greatest }: LayoutDialect, alias: string): string {
  return `${greatest('0', `${alias}.run_at - ${now}`)} AS due_in_ms`
}

/**
 * `dead` for an engine that keeps dead jobs in the history alone. The last condition lets the planner use a partial
 * index.
 */
export const deadInHistory =
  "@job_history h WHERE h.namespace = :namespace AND h.state = 'dead' AND h.state <> 'completed'"

/** Deletes starts of a queue that no longer count, where an index orders them by their end. */
export function forgetStarts({ now, deleteFirst }: LayoutDialect): string {
  return deleteFirst({
    ...{ from: '@job_rate', key: 'namespace, queue, limit_key', orderBy: 'expires_at', limit: '100' },
    where: `namespace = :namespace AND queue = :queue AND expires_at <= ${now}`,
  })
}

/**
 * Signalbox's own queues (tasks, bulk operations) have few jobs among very many, and servers read them all the time.
 * Engines with partial indexes keep a separate index for these queues, at no cost for other jobs.
 */
const first = 'signalbox.'
/** The next text after all texts with this prefix. */
const end = 'signalbox/'

export function isOwnQueue(queue: string): boolean {
  return queue.startsWith(first)
}

/** The condition of those indexes. A statement must repeat it literally, so that the planner can use the index. */
export function isOwn(column: string): string {
  return `${column} >= '${first}' AND ${column} < '${end}'`
}
