import type { JobState } from '../../jobs/index.ts'
import type { Dialect } from './dialect.ts'

/**
 * Where an engine keeps jobs, and by which index each list of them is read. All SELECTs here have the columns of
 * `JobRow`. They may use `:namespace`, and `:expiredError`, the error of a job whose last lease ran out.
 */
export interface JobLayout {
  /**
   * A SELECT, without LIMIT, for each table that may hold one job: `where(alias)` is the condition on the table with that
   * alias. One statement reads both tables, so that a job on its way from one to the other is never missed.
   */
  find(where: Where): readonly string[]
  /** The same for the jobs `:ids`, with the columns `id`, `state` and `due_in_ms` alone. */
  readonly states: readonly string[]
  /** The columns that a blocked job keeps when it ends: all but its state, its end and its error. */
  readonly carried: string
  /** The same as `find` for a page of a list: only the places that may hold such jobs. */
  list(wanted: Wanted, where: Where): readonly string[]
  /** The indexes by which jobs are counted (job-counts.ts): each live and each dead job is in one of them. */
  readonly walks: Readonly<Partial<Record<WalkName, JobWalk>>>
  /**
   * The kinds of ready jobs of `:queue`, by its index, from the first `:limit` jobs of each kind or of the queue: columns
   * `kind`, `jobs`, and `oldest`, the first `run_at`.
   */
  readonly readyKinds: string
  readonly limits: LimitLayout
}

/**
 * Where a claim from a queue with limits looks (limit-claim.ts). Jobs have the columns `id`, `limit_key`, `priority` and `run_at`.
 * `{AND kind IN (:kinds)}` is for a claim of some kinds.
 */
export interface LimitLayout {
  /** `@job_queue q`, by the index that has the running jobs. */
  readonly running: string
  /** The first ready jobs: `:limit`, or `:limit` without a key and as many with one. */
  readonly front: string
  /** The first `:limit` ready jobs without a key. */
  readonly keyless: string
  /**
   * The first ready job of each key, or of each key and kind, behind the key `:after`: of up to `:limit` keys and to the key
   * `:upTo`, by key; and its `kind`. MariaDB gives the first `:limit` jobs in the order of keys.
   */
  readonly heads: string
  /** For each row of the batch `:rows`, the first `v.wanted` ready jobs with the key `v.limit_key`. */
  readonly firsts: string
  /** The column that says when starts count no more, and how much earlier it is. */
  readonly expiry: { readonly column: string; readonly earlierMs: number }
  /** Removes some starts of the queue that count no more. */
  readonly forgetStarts: string
}

export type WalkName = 'live' | 'ready' | 'keyed' | 'scheduled' | 'waiting' | 'running' | 'dead'

/** An index in which jobs are in the order of their queues. */
export interface JobWalk {
  /** The table, as `q`, with the index. */
  readonly from: string
  readonly where: string
  readonly state: ShownState
  /** Since when a ready job waits. */
  readonly runAt: string
  /** Together they are all of a queue. */
  readonly kinds: Readonly<Record<string, JobKind>>
}

/** A range of an index within a queue. */
export interface JobKind {
  readonly where: string
  /** Reads the range from its start. */
  readonly orderBy: string
  /** If its jobs are all of one state. */
  readonly state?: { readonly is: JobState }
}

/** What jobs are at this moment: all of one state, or as an expression says. */
export type ShownState = { readonly is: JobState } | { readonly by: string }

/** What these texts need of a dialect. */
export type Words = Pick<Dialect, 'now' | 'text' | 'integer' | 'greatest' | 'byKeys' | 'deleteFirst'>

export type Where = (alias: string) => string

/** Which jobs a list has. */
export interface Wanted {
  readonly state: JobState | undefined
  /** Whether a queue is named, and whether that queue is one of Signalbox's own (isOwnQueue). */
  readonly of: 'all' | 'queue' | 'own'
}

/** Jobs that have ended, as `h`; all engines keep them in one table. */
export function selectEnded(d: Words, from = '@job_history h'): string {
  return `
SELECT h.id, h.queue, h.kind, h.payload, h.priority, h.unique_key, ${d.text('h.state')} AS state, h.attempt,
  h.max_attempts, h.hand_back_count, h.snooze_count, h.run_at, h.created_at, h.started_at, h.finished_at, h.worker_id,
  ${d.integer('NULL')} AS lease_ends_at, h.backoff, h.timeout_ms, h.meta, h.result, h.error, FALSE AS cancel_requested,
  h.cancel_ignored
FROM ${from}`
}

const isExpired = (now: string) => `(q.state = 'running' AND q.lease_ends_at <= ${now})`

/**
 * What a job `q` of one table is at this moment, whether or not a worker has acted on it: a due job is ready, and a job
 * whose lease ran out is what it will become. `c` is its cancellation request.
 */
export function liveState({ now, text }: Pick<Words, 'now' | 'text'>): string {
  const expired = isExpired(now)
  return `CASE
    WHEN q.state = 'scheduled' AND q.run_at <= ${now} THEN 'ready'
    WHEN ${expired} AND c.job_id IS NOT NULL THEN 'cancelled'
    WHEN ${expired} AND q.attempt >= q.max_attempts THEN 'dead'
    WHEN ${expired} THEN 'ready'
    ELSE ${text('q.state')} END`
}

/** Live jobs, as `q`, of an engine that has all of them in one table; `request` joins their cancellation requests `c`. */
export function selectLive(d: Words, request: string, from = '@job_queue q'): string {
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

/** The states of live jobs, as `q`, of an engine that has all of them in one table. */
export function selectLiveStates(d: Words, request: string): string {
  return selectStates(d, liveState(d), '@job_queue', 'q', request)
}

export function selectEndedStates(d: Words): string {
  return selectStates(d, d.text('h.state'), '@job_history', 'h')
}

/** The states of the jobs `:ids` that are in one table. */
function selectStates(d: Words, state: string, from: string, alias: string, join = ''): string {
  const where = `${alias}.namespace = :namespace`
  return `
SELECT ${alias}.id, ${state} AS state, ${dueInMs(d, alias)}
${d.byKeys({ from, alias, where, key: `${alias}.id`, keys: ':ids', join })}`
}

/** How long until a job is due. */
function dueInMs({ now, greatest }: Words, alias: string): string {
  return `${greatest('0', `${alias}.run_at - ${now}`)} AS due_in_ms`
}

/** Removes starts of a queue that count no more, where an index lists them by their end. */
export function forgetStarts({ now, deleteFirst }: Words): string {
  return deleteFirst({
    ...{ from: '@job_rate', key: 'namespace, queue, limit_key', orderBy: 'expires_at', limit: '100' },
    where: `namespace = :namespace AND queue = :queue AND expires_at <= ${now}`,
  })
}

/**
 * Signalbox's own queues (tasks, bulk operations) are few jobs among very many, and looked at all the time. Engines that
 * have partial indexes keep one of these queues alone, which no other job pays for.
 */
const first = 'signalbox.'
/** The next text after all that begin so. */
const end = 'signalbox/'

export function isOwnQueue(queue: string): boolean {
  return queue.startsWith(first)
}

/** The condition of those indexes, word for word as a planner must find it in a statement that is to use one. */
export function isOwn(column: string): string {
  return `${column} >= '${first}' AND ${column} < '${end}'`
}
