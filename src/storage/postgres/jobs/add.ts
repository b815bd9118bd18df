import type { Added, NewJob } from '../../../jobs/index.ts'
import { between, nowMs, repeated, sparse } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/**
 * Adding jobs. Without unique keys it is one plain insert. With them, the keys are inserted first and each job goes in
 * only where its key did; the others answer with the job that has it. A key whose holder this statement's snapshot
 * cannot show (it was written, or freed, in between) is reported as unresolved, and the caller asks again for those.
 *
 * Jobs that depend on others go in as `waiting`, and what they wait for behind them, once it is known which were written.
 */
export interface AddStatements {
  readonly plain: Statement
  /** As `plain`, for jobs that differ in id and payload alone. */
  readonly alike: Statement
  /** The same two, which also send a wake-up as they commit: their last two values are its channel and what to say. */
  readonly plainWaking: Statement
  readonly alikeWaking: Statement
  readonly unique: Statement
  /** As `unique`, for jobs of which some depend on others. */
  readonly blocked: Statement
  readonly dependencies: Statement
}

/** What the statement with unique keys answers for each job. */
export interface AddRow {
  readonly nr: number
  readonly holder: string | null
  /** Some lease of this namespace ran out, so the holder may be dead. */
  readonly lapsed: boolean
}

export function addStatements(s: string): AddStatements {
  const given = `
clock AS MATERIALIZED (SELECT ${nowMs} AS now),
given AS MATERIALIZED (
  SELECT g.nr, g.id, coalesce(g.queue, ($3::text[])[1]) AS queue, coalesce(g.kind, ($4::text[])[1]) AS kind,
         coalesce(g.payload, ($5::text[])[1]) AS payload, coalesce(g.priority, ($6::int[])[1]) AS priority,
         g.unique_key COLLATE "C" AS unique_key,
         coalesce(g.run_at, clock.now + coalesce(g.delay_ms, ($9::bigint[])[1])) AS run_at,
         coalesce(g.max_attempts, ($10::int[])[1]) AS max_attempts, g.backoff, g.timeout_ms, g.meta, clock.now
  FROM clock, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::bigint[],
    $9::bigint[], $10::int[], $11::text[], $12::bigint[], $14::text[]) WITH ORDINALITY
    g (id, queue, kind, payload, priority, unique_key, run_at, delay_ms, max_attempts, backoff, timeout_ms, meta, nr)
  -- In a caller's transaction: only if its database is this store's.
  WHERE $13::text IS NULL OR EXISTS (SELECT FROM ${s}.signalbox_meta WHERE key = 'store_id' AND value = $13)
)`
  const insert = (state: string) => `
  INSERT INTO ${s}.job_pending (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, updated_at, backoff, timeout_ms, meta)
  SELECT $1, g.id, g.queue, g.kind, g.payload, g.priority, g.unique_key,
         ${state}, 0, g.max_attempts, 0, 0, g.run_at, g.now, g.now,
         g.backoff, g.timeout_ms, g.meta
  FROM given g`
  const byTime = `CASE WHEN g.run_at <= g.now THEN 'ready' ELSE 'scheduled' END`
  const unique = (state: string) => `
WITH ${given},
won AS (
  INSERT INTO ${s}.job_unique (namespace, queue, unique_key, job_id)
  -- In one order, so that two adds of the same keys wait for each other and never in a ring.
  SELECT DISTINCT ON (queue COLLATE "C", unique_key) $1, queue, unique_key, id FROM given
  WHERE unique_key IS NOT NULL ORDER BY queue COLLATE "C", unique_key, nr
  ON CONFLICT DO NOTHING
  RETURNING queue, unique_key, job_id
),
added AS (${insert(state)} LEFT JOIN won w ON w.job_id = g.id WHERE g.unique_key IS NULL OR w.job_id IS NOT NULL)
SELECT g.nr::int AS nr,
       CASE WHEN g.unique_key IS NULL THEN g.id ELSE coalesce(w.job_id, u.job_id) END AS holder,
       EXISTS (SELECT FROM ${s}.job_lease l WHERE l.namespace = $1 AND l.ends_at <= g.now) AS lapsed
FROM given g
LEFT JOIN won w ON w.queue = g.queue AND w.unique_key = g.unique_key
LEFT JOIN ${s}.job_unique u ON u.namespace = $1 AND u.queue = g.queue AND u.unique_key = g.unique_key
ORDER BY g.nr`
  const alike = `
INSERT INTO ${s}.job_pending (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts,
  hand_back_count, snooze_count, run_at, created_at, updated_at)
SELECT $1, g.id, $3, $4, g.payload, $6::int, CASE WHEN $7::bigint <= 0 THEN 'ready' ELSE 'scheduled' END, 0, $8::int, 0, 0,
       clock.now + $7::bigint, clock.now, clock.now
FROM (SELECT ${nowMs} AS now) clock,
  unnest(string_to_array($2, E'\\x1f'), string_to_array($5, E'\\x1f')) g (id, payload)`
  return {
    plain: { name: 'sb_add', text: `WITH ${given}${insert(byTime)}` },
    alike: { name: 'sb_add_alike', text: alike },
    plainWaking: {
      name: 'sb_add_waking',
      text: `WITH ${given}, added AS (${insert(byTime)}) SELECT pg_notify($15, $16)`,
    },
    alikeWaking: {
      name: 'sb_add_alike_waking',
      text: `WITH added AS (${alike}) SELECT pg_notify($9, $10)`,
    },
    unique: { name: 'sb_add_unique', text: unique(byTime) },
    blocked: {
      name: 'sb_add_gated',
      text: unique(
        `CASE WHEN ($15::boolean[])[g.nr] THEN 'waiting' WHEN g.run_at <= g.now THEN 'ready' ELSE 'scheduled' END`,
      ),
    },
    dependencies: {
      name: 'sb_add_gates',
      text: `
WITH need AS (
  INSERT INTO ${s}.job_dependency (namespace, job_id, dependency_id, is_met)
  SELECT $1, n.job_id, n.dependency_id, false FROM unnest($2::text[], $3::text[]) n (job_id, dependency_id)
  ON CONFLICT DO NOTHING
)
INSERT INTO ${s}.job_lock (namespace, job_id, operation, resource, ask_no, is_called, tended_until)
SELECT $1, k.job_id, k.operation, k.resource, 1, k.is_called, 0
FROM unnest($4::text[], $5::text[], $6::text[], $7::boolean[]) k (job_id, operation, resource, is_called)`,
    },
  }
}

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
  ]
}

/**
 * The values of `alike`, or undefined when the jobs are not. Most lists are of one kind and say nothing else: what they
 * have in common is sent once and not computed for each row, which makes an insert a third cheaper; and texts that are
 * merely put between others need no quotes.
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

/** Whether it comes out again as one text. What is not even text is left to the database to refuse. */
function isSingle(text: string): boolean {
  return typeof text === 'string' && text !== '' && !text.includes(between)
}

/** How jobs without unique keys and dependencies are added. */
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
  /** The same with a wake-up, whose two values come last. */
  readonly waking: Statement
  readonly values: unknown[]
}

/** For each job whether it waits: what `blocked` wants besides. */
export function waitingValues(jobs: readonly NewJob[]): readonly boolean[] {
  return jobs.map(({ dependsOn }) => (dependsOn ?? null) !== null)
}

export function isBlocked({ dependsOn }: NewJob): boolean {
  return dependsOn !== null && dependsOn !== undefined
}

/** What those that were written wait for; a dependency on one of the same call that was a duplicate is for its holder. */
export function dependencyValues(
  namespace: string,
  jobs: readonly NewJob[],
  answers: readonly Added[],
): unknown[] | undefined {
  const holders = new Map(jobs.map(({ id }, nr) => [id, answers[nr]!.id]))
  const blocked = jobs.flatMap(({ id, dependsOn }, nr) =>
    dependsOn && !answers[nr]!.duplicate ? [{ id, ...dependsOn }] : [],
  )
  if (blocked.length === 0) return undefined
  const dependencies = blocked.flatMap(({ id, jobs: others }) =>
    others.map((dependencyId) => [id, holders.get(dependencyId) ?? dependencyId] as const),
  )
  const locks = blocked.flatMap(({ id, jobs: others, lock }) =>
    lock === null ? [] : [{ id, ...lock, isCalled: others.length === 0 }],
  )
  return [
    namespace,
    dependencies.map(([id]) => id),
    dependencies.map(([, dependencyId]) => dependencyId),
    locks.map(({ id }) => id),
    locks.map(({ operation }) => operation),
    locks.map(({ resource }) => resource),
    locks.map(({ isCalled }) => isCalled),
  ]
}

/** The answers in order; undefined where the holder of the key could not be told, and must be asked for again. */
export function readAdded(jobs: readonly NewJob[], rows: readonly AddRow[]): readonly (Added | undefined)[] {
  const answers: (Added | undefined)[] = jobs.map(() => undefined)
  for (const { nr, holder } of rows) {
    if (holder !== null) answers[nr - 1] = { id: holder, duplicate: holder !== jobs[nr - 1]!.id }
  }
  return answers
}
