import type { Added, NewJob } from '../../../jobs/index.ts'
import { limitKeyOf } from '../../sql/limit-plan.ts'
import { between, nowMs, perSchema, repeated, type Statement, sparse } from '../connection/statement.ts'

/**
 * Adds jobs. Without unique keys it is one plain insert. With them, the unique index decides which job gets the key,
 * also between racing adds and within one statement; the other adds answer with the job that has the key. The snapshot
 * of the statement may not show the holder, if the holder was written or freed meanwhile. Then the caller repeats the
 * add.
 *
 * Jobs that depend on others are added as `waiting`. The caller then adds the dependencies of the jobs that were written.
 */
export interface AddStatements {
  readonly plain: Statement
  /** Like `plain`, for jobs that differ only in id and payload. */
  readonly alike: Statement
  /** The same two with a wake-up at their commit. Their last two values are its channel and payload. */
  readonly plainWaking: Statement
  readonly alikeWaking: Statement
  readonly unique: Statement
  /** Like `unique`, for lists in which some jobs depend on others. */
  readonly blocked: Statement
}

/** The answer of `unique` for each job. */
export interface AddRow {
  readonly nr: number
  readonly holder: string | null
  /** The lease of the holder expired, so the holder may be dead. */
  readonly lapsed: boolean
}

export const addStatements: (schema: string) => AddStatements = perSchema((s) => {
  const given = `
clock AS MATERIALIZED (SELECT ${nowMs} AS now),
given AS MATERIALIZED (
  SELECT g.nr, g.id, coalesce(g.queue, ($3::text[])[1]) AS queue, coalesce(g.kind, ($4::text[])[1]) AS kind,
         coalesce(g.payload, ($5::text[])[1]) AS payload, coalesce(g.priority, ($6::int[])[1]) AS priority,
         g.unique_key COLLATE "C" AS unique_key,
         coalesce(g.run_at, clock.now + coalesce(g.delay_ms, ($9::bigint[])[1])) AS run_at,
         coalesce(g.max_attempts, ($10::int[])[1]) AS max_attempts, g.backoff, g.timeout_ms, g.meta, g.limit_key, clock.now
  FROM clock, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::bigint[],
    $9::bigint[], $10::int[], $11::text[], $12::bigint[], $14::text[], $15::text[]) WITH ORDINALITY
    g (id, queue, kind, payload, priority, unique_key, run_at, delay_ms, max_attempts, backoff, timeout_ms, meta, limit_key, nr)
  -- In a caller's transaction: only if its database is this store's.
  WHERE $13::text IS NULL OR EXISTS (SELECT FROM ${s}.signalbox_meta WHERE key = 'store_id' AND value = $13)
)`
  const insert = (state: string) => `
  INSERT INTO ${s}.job_queue (namespace, id, queue, kind, payload, priority, unique_key, state, max_attempts, run_at, created_at,
    updated_at, backoff, timeout_ms, meta, limit_key)
  SELECT $1, g.id, g.queue, g.kind, g.payload, g.priority, g.unique_key, ${state}, g.max_attempts, g.run_at, g.now, g.now,
         g.backoff, g.timeout_ms, g.meta, g.limit_key
  FROM given g`
  const byTime = `CASE WHEN g.run_at <= g.now THEN 'ready' ELSE 'scheduled' END`
  const unique = (state: string) => `
WITH ${given},
added AS (
  -- All adds lock keys in one order, so that two adds of the same keys do not deadlock.
  ${insert(state)} ORDER BY g.queue COLLATE "C", g.unique_key, g.nr
  ON CONFLICT (namespace, queue, unique_key) WHERE unique_key IS NOT NULL DO NOTHING
  RETURNING id, queue, unique_key
)
SELECT g.nr::int AS nr, CASE WHEN g.unique_key IS NULL THEN g.id ELSE coalesce(w.id, u.id) END AS holder,
       coalesce(w.id IS NULL AND u.state = 'running' AND u.lease_ends_at <= g.now, false) AS lapsed
FROM given g
LEFT JOIN added w ON w.queue = g.queue AND w.unique_key = g.unique_key
LEFT JOIN LATERAL (
  SELECT q.id, q.state, q.lease_ends_at FROM ${s}.job_queue q
  WHERE w.id IS NULL AND q.namespace = $1 AND q.queue = g.queue AND q.unique_key = g.unique_key LIMIT 1
) u ON true
ORDER BY g.nr`
  const alike = `
INSERT INTO ${s}.job_queue (namespace, id, queue, kind, payload, priority, state, max_attempts, run_at, created_at, updated_at)
SELECT $1, g.id, $3, $4, g.payload, $6::int, CASE WHEN $7::bigint <= 0 THEN 'ready' ELSE 'scheduled' END, $8::int,
       clock.now + $7::bigint, clock.now, clock.now
FROM (SELECT ${nowMs} AS now) clock,
  unnest(string_to_array($2, E'\\x1f'), string_to_array($5, E'\\x1f')) g (id, payload)`
  return {
    plain: { name: 'sb_add', text: `WITH ${given}${insert(byTime)}` },
    alike: { name: 'sb_add_alike', text: alike },
    plainWaking: {
      name: 'sb_add_waking',
      text: `WITH ${given}, added AS (${insert(byTime)}) SELECT pg_notify($16, $17)`,
    },
    alikeWaking: {
      name: 'sb_add_alike_waking',
      text: `WITH added AS (${alike}) SELECT pg_notify($9, $10)`,
    },
    unique: { name: 'sb_add_unique', text: unique(byTime) },
    blocked: {
      name: 'sb_add_blocked',
      text: unique(
        `CASE WHEN ($16::boolean[])[g.nr] THEN 'waiting' WHEN g.run_at <= g.now THEN 'ready' ELSE 'scheduled' END`,
      ),
    },
  }
})

export function addValues(namespace: string, jobs: readonly NewJob[], storeId: string | null): unknown[] {
  return [
    namespace,
    jobs.map(({ id }) => id),
    repeated(jobs.map(({ queue }) => queue)),
    repeated(jobs.map(({ kind }) => kind)),
    repeated(jobs.map(({ payload }) => payload)),
    repeated(jobs.map(({ priority }) => priority)),
    sparse(jobs.map(({ uniqueKey }) => uniqueKey)),
    sparse(jobs.map(({ due }) => ('runAt' in due ? due.runAt : null))),
    repeated(jobs.map(({ due }) => ('delayMs' in due ? due.delayMs : 0))),
    repeated(jobs.map(({ maxAttempts }) => maxAttempts)),
    sparse(jobs.map(({ backoff }) => backoff)),
    sparse(jobs.map(({ timeoutMs }) => timeoutMs)),
    storeId,
    sparse(jobs.map(({ meta }) => meta)),
    sparse(jobs.map(({ meta }) => storableKey(meta))),
  ]
}

/** The limit key, or null if Postgres cannot store it as text. */
export function storableKey(meta: string | null): string | null {
  const key = limitKeyOf(meta)
  return key?.includes('\0') ? null : key
}

/**
 * The values of `alike`, or undefined if the jobs differ in more than id and payload. Most lists have one kind and no
 * options. Sending their common values once makes an insert a third cheaper. Joined texts need no quotes.
 */
export function alikeValues(namespace: string, jobs: readonly NewJob[]): unknown[] | undefined {
  const { queue, kind, priority, maxAttempts, due } = jobs[0]!
  if (!('delayMs' in due)) return undefined
  const ids: string[] = []
  const payloads: string[] = []
  for (const job of jobs) {
    const isAlike =
      job.queue === queue &&
      job.kind === kind &&
      job.priority === priority &&
      job.maxAttempts === maxAttempts &&
      'delayMs' in job.due &&
      job.due.delayMs === due.delayMs &&
      job.uniqueKey === null &&
      job.backoff === null &&
      job.timeoutMs === null &&
      job.meta === null
    if (!isAlike || !isSingle(job.id) || !isSingle(job.payload)) return undefined
    ids.push(job.id)
    payloads.push(job.payload)
  }
  return [
    namespace,
    ids.join(between),
    queue,
    kind,
    payloads.join(between),
    priority,
    due.delayMs,
    maxAttempts,
  ]
}

/** Whether `string_to_array` returns this text whole. The database refuses a value that is not text. */
function isSingle(text: string): boolean {
  return typeof text === 'string' && text !== '' && !text.includes(between)
}

/** Chooses the statement for jobs without unique keys and dependencies. */
export function plainAdd(
  { alike, plain, alikeWaking, plainWaking }: AddStatements,
  namespace: string,
  jobs: readonly NewJob[],
): PlainAdd {
  const values = alikeValues(namespace, jobs)
  return values
    ? { statement: alike, waking: alikeWaking, values }
    : { statement: plain, waking: plainWaking, values: addValues(namespace, jobs, null) }
}

export interface PlainAdd {
  readonly statement: Statement
  /** The same with a wake-up. Its two values come last. */
  readonly waking: Statement
  readonly values: unknown[]
}

/**
 * Chooses the statement for jobs with unique keys or dependencies. With a store id, it adds only in that store's
 * database.
 */
export function uniqueAdd(
  { unique, blocked }: AddStatements,
  namespace: string,
  jobs: readonly NewJob[],
  storeId: string | null,
): { readonly statement: Statement; readonly values: unknown[] } {
  const values = addValues(namespace, jobs, storeId)
  if (!jobs.some(isBlocked)) return { statement: unique, values }
  return { statement: blocked, values: [...values, jobs.map(isBlocked)] }
}

/** Whether one statement is enough: no job has a unique key or a dependency. */
export function isOneStatement(jobs: readonly NewJob[]): boolean {
  return jobs.every((job) => job.uniqueKey === null && !isBlocked(job))
}

function isBlocked({ dependsOn }: NewJob): boolean {
  return dependsOn !== null && dependsOn !== undefined
}

/**
 * The answers in order; undefined where the snapshot did not show the holder of the key, so the add must be repeated.
 */
export function readAdded(jobs: readonly NewJob[], rows: readonly AddRow[]): readonly (Added | undefined)[] {
  const answers: (Added | undefined)[] = jobs.map(() => undefined)
  for (const { nr, holder } of rows) {
    if (holder !== null) answers[nr - 1] = { id: holder, duplicate: holder !== jobs[nr - 1]!.id }
  }
  return answers
}
