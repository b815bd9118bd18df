import type { ClaimedRecord, Verdict } from '../../../jobs/index.ts'
import type { Token } from '../../token.ts'
import { nowMs, repeated, sparse } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/**
 * Writing verdicts. All forms end alike: what is final goes to history and frees its unique key, the rest goes back in
 * line, and a cancellation that was asked for has its say. They differ in how the fence is passed and where the job
 * comes from.
 *
 *     whole   every open job of its lease: the lease's row is deleted, and that is the fence
 *     some    one key in job_end each; the jobs are read from the lease's row
 *     given   as `some`, for one job whose fields the caller still has from its claim: nothing big is read
 *     final   as `given`, for a job without a unique key that is over: the least there is to do, in two statements of
 *             one packet, so that the second sees what was committed while the first waited for the lease's lock
 *
 * `…OrFail` raises an error instead of answering no, so that a COMMIT behind it cannot take effect: in transactions of
 * the store's own and of callers.
 */
export interface SettleStatements {
  readonly whole: Statement
  readonly some: Statement
  readonly someOrFail: Statement
  readonly givenOrFail: Statement
  readonly leaseLock: Statement
  readonly finalOrFail: Statement
}

export interface SettledRow {
  readonly lease_no: string
  readonly id: string
}

export const leaseLostState = 'SBX01'
/** What `final` raises: the lease that it looks for is none, and the key of job_end may not be. */
export const noLeaseState = '23502'
export const notWholeState = 'SBX02'
/** The transaction is in another database than the store. */
export const notHereState = 'SBX03'

/** How long a verdict waits for another transaction that is ending the same attempt. */
const fenceWaitMs = 250

export function settleStatements(s: string): SettleStatements {
  const verdict = `
verdict AS MATERIALIZED (
  SELECT coalesce(v.lease_no, ($4::bigint[])[1]) AS lease_no, v.id COLLATE "C" AS id,
         coalesce(v.state, ($6::text[])[1]) COLLATE "C" AS state, coalesce(v.attempt, ($7::int[])[1]) AS attempt,
         coalesce(v.hand_back_count, ($8::int[])[1]) AS hand_back_count,
         coalesce(v.snooze_count, ($9::int[])[1]) AS snooze_count, coalesce(v.delay_ms, ($10::bigint[])[1]) AS delay_ms,
         v.ran_ms, v.result, v.error
  FROM unnest($4::bigint[], $5::text[], $6::text[], $7::int[], $8::int[], $9::int[], $10::bigint[], $11::bigint[],
    $12::text[], $13::text[]) v (lease_no, id, state, attempt, hand_back_count, snooze_count, delay_ms, ran_ms, result, error)
)`
  const fields = `j.queue, j.kind, j.payload, j.priority, j.unique_key, j.max_attempts, j.run_at, j.created_at, j.backoff,
         j.timeout_ms, j.meta`
  // The jobs are unpacked before they are joined: else each verdict would unpack the whole lease again.
  const sentence = (from: string) => `
job AS MATERIALIZED (
  SELECT h.lease_no, h.worker_id, h.claimed_at, j.id, ${fields}
  FROM ${from}
),
sentence AS MATERIALIZED (
  SELECT v.*, j.worker_id, j.claimed_at, ${fields}
  FROM job j JOIN verdict v ON v.lease_no = j.lease_no AND v.id = j.id
)`
  const fromLease = `held h
  JOIN ${s}.job_lease l ON l.lease_no = h.lease_no
  CROSS JOIN LATERAL unnest(l.jobs) j`
  const fromGiven = `held h
  CROSS JOIN (SELECT ($5::text[])[1] COLLATE "C" AS id, $15::text AS queue, $16::text AS kind, $17::text AS payload, $18::int AS priority,
    $19::text COLLATE "C" AS unique_key, $20::int AS max_attempts, $21::bigint AS run_at, $22::bigint AS created_at,
    $23::text AS backoff, $24::bigint AS timeout_ms, $25::text AS meta) j`

  // The time, and for the store's own statements how long the insert into job_end may wait for another's.
  const clock = (waits: boolean) =>
    `clock AS MATERIALIZED (SELECT ${nowMs} AS now${waits ? `, set_config('lock_timeout', '${fenceWaitMs}ms', true)` : ''})`

  const held = (checked: boolean) =>
    checked
      ? `
held AS MATERIALIZED (
  SELECT h.* FROM ${s}.signalbox_meta m CROSS JOIN LATERAL ${s}.signalbox_held($1, $2, $3) h
  WHERE m.key = 'store_id' AND m.value = $14
)`
      : `
held AS MATERIALIZED (SELECT h.* FROM clock CROSS JOIN LATERAL ${s}.signalbox_held($1, $2, $3) h)`

  const ends = `
ended AS (
  INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how)
  SELECT lease_no, id, clock.now, CASE WHEN state IN ('ready', 'scheduled') THEN 'returned' ELSE 'final' END
  FROM clock, sentence ORDER BY lease_no, id
  ON CONFLICT DO NOTHING
  RETURNING lease_no, job_id
)`
  const ended = `
  WHERE CASE WHEN (s.lease_no, s.id) IN (SELECT e.lease_no, e.job_id FROM ended e) THEN true ELSE false END`
  const endsWhole = `
ended AS (
  SELECT lease_no, id AS job_id FROM sentence
),
returned AS (
  INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how)
  SELECT lease_no, id, clock.now, 'returned' FROM clock, sentence WHERE state IN ('ready', 'scheduled')
)`

  // The sub-selects stand inside CASE so that they are hashed once: as joins they would be planned for the handful of
  // rows that a statement planned ahead expects, and compare every job with every other.
  const writes = (took: string) => `
asked AS MATERIALIZED (SELECT job_id FROM ${s}.job_cancel WHERE namespace = $1),
settled AS MATERIALIZED (
  SELECT s.*, clock.now, coalesce(clock.now - s.ran_ms, s.claimed_at) AS started_at,
         CASE WHEN s.state IN ('ready', 'scheduled') AND s.id IN (SELECT job_id FROM asked) THEN 'cancelled'
              ELSE s.state END AS becomes,
         CASE WHEN s.state = 'completed' THEN s.id IN (SELECT job_id FROM asked) ELSE false END AS cancel_ignored
  FROM clock, sentence s ${took}
),
heeded AS (
  DELETE FROM ${s}.job_cancel c USING asked a, ended e
  WHERE a.job_id = e.job_id AND c.namespace = $1 AND c.job_id = a.job_id
),
over AS (
  INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored, meta)
  SELECT $1, id, queue, kind, payload, priority, unique_key, becomes, attempt, max_attempts, hand_back_count,
    snooze_count, run_at, created_at, started_at, now, worker_id, lease_no, backoff, timeout_ms, result, error,
    cancel_ignored, meta
  FROM settled WHERE becomes NOT IN ('ready', 'scheduled')
),
back AS (
  INSERT INTO ${s}.job_pending (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, updated_at, started_at, worker_id, backoff, timeout_ms, result,
    error, meta)
  SELECT $1, id, queue, kind, payload, priority, unique_key,
    CASE WHEN becomes = 'scheduled' AND delay_ms > 0 THEN 'scheduled' ELSE 'ready' END, attempt, max_attempts,
    hand_back_count, snooze_count, CASE WHEN becomes = 'scheduled' THEN now + delay_ms ELSE run_at END, created_at, now,
    started_at, worker_id, backoff, timeout_ms, result, error, meta
  FROM settled WHERE becomes IN ('ready', 'scheduled')
),
freed AS (
  DELETE FROM ${s}.job_unique u USING settled s
  WHERE s.unique_key IS NOT NULL AND s.becomes NOT IN ('ready', 'scheduled')
    AND u.namespace = $1 AND u.queue = s.queue AND u.unique_key = s.unique_key AND u.job_id = s.id
)`
  const answer = 'SELECT lease_no, id FROM settled'
  const answerOrFail = `SELECT CASE WHEN (SELECT count(*) FROM settled) = cardinality($5::text[]) THEN 0
       ELSE ${s}.signalbox_refuse(CASE WHEN EXISTS (SELECT FROM ${s}.signalbox_meta WHERE key = 'store_id' AND value = $14)
         THEN '${leaseLostState}' ELSE '${notHereState}' END, 'the lease is lost, or of another store') END AS took`
  // A lease may go only if each of its open jobs has a verdict here; else this is undone and done one by one.
  const answerWhole = `SELECT lease_no,
       CASE WHEN (SELECT count(*) FROM settled) = (SELECT sum(count) FROM gone) THEN 0
            ELSE ${s}.signalbox_refuse('${notWholeState}', 'not the whole lease') END AS whole
FROM gone`

  const one = (from: string, end: string) =>
    `WITH ${[clock(false), verdict, held(true), sentence(from), ends, writes(ended)].join(',')}\n${end}`
  return {
    whole: {
      name: 'sb_settle_whole',
      text: `WITH ${clock(true)},${verdict},
gone AS MATERIALIZED (
  SELECT c.lease_no, c.worker_id, c.claimed_at, c.jobs, n.count
  FROM ${s}.signalbox_close($1, $2, $3, $14::int[], $5) c
  JOIN unnest($2::bigint[], $14::int[]) n (lease_no, count) ON n.lease_no = c.lease_no
),
${sentence('gone h CROSS JOIN LATERAL unnest(h.jobs) j')},
${endsWhole},${writes('')}
${answerWhole}`,
    },
    some: {
      name: 'sb_settle',
      text: `WITH ${[clock(true), verdict, held(false), sentence(fromLease), ends, writes(ended)].join(',')}\n${answer}`,
    },
    someOrFail: { name: 'sb_settle_or_fail', text: one(fromLease, answerOrFail) },
    givenOrFail: { name: 'sb_settle_given_or_fail', text: one(fromGiven, answerOrFail) },
    leaseLock: {
      name: 'sb_lease_lock',
      text: `SELECT ${leaseLock(s, 'pg_advisory_xact_lock_shared', '$1::bigint')}`,
    },
    finalOrFail: { name: 'sb_end', text: finalOrFail(s) },
  }
}

/**
 * The fence comes first: what stands in WITH and is not asked for is done after the statement itself. A lease that is
 * not live makes its number NULL, and the insert an error. A request to cancel stays for upkeep to clear away.
 */
function finalOrFail(s: string): string {
  return `WITH over AS (
  INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored, meta)
  SELECT $1::text, $4::text, $11::text, $12::text, $13::text, $14::int, $5::text, $6::int, $15::int, $7::int, $8::int,
    $16::bigint, $17::bigint, coalesce(clock.now - $9::bigint, $18::bigint), clock.now, $19::text, $2::bigint,
    $20::text, $21::bigint, $10::text, $22::text,
    $5::text = 'completed' AND EXISTS (SELECT FROM ${s}.job_cancel c WHERE c.namespace = $1 AND c.job_id = $4), $23::text
  FROM (SELECT ${nowMs} AS now) clock
)
INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how)
VALUES ((SELECT l.lease_no FROM ${s}.job_lease l
         WHERE l.lease_no = $2 AND l.namespace = $1 AND l.nonce = $3 AND l.ends_at > ${nowMs}),
  $4, ${nowMs}, 'final')`
}

/** The advisory lock of a lease, as the functions of the schema take it. */
function leaseLock(s: string, take: string, leaseNo: string): string {
  return `${take}(hashtext('signalbox ' || '${s.replaceAll("'", "''")}'), (${leaseNo} % 2147483647)::int)`
}

/** A verdict whose token can be one. */
export interface Sealed {
  readonly verdict: Verdict
  readonly token: Token
}

/** The values $1 to $13 that all forms share. */
export function verdictValues(namespace: string, sealed: readonly Sealed[]): unknown[] {
  const leases = new Map(sealed.map(({ token }) => [`${token.leaseNo}.${token.nonce}`, token]))
  const tokens = [...leases.values()].sort((a, b) => Number(BigInt(a.leaseNo) - BigInt(b.leaseNo)))
  const verdicts = sealed.map(({ verdict }) => verdict)
  return [
    namespace,
    tokens.map(({ leaseNo }) => leaseNo),
    tokens.map(({ nonce }) => nonce),
    repeated(sealed.map(({ token }) => token.leaseNo)),
    verdicts.map(({ jobId }) => jobId),
    repeated(verdicts.map(({ state }) => state)),
    repeated(verdicts.map(({ attempt }) => attempt)),
    repeated(verdicts.map(({ handBackCount }) => handBackCount)),
    repeated(verdicts.map(({ snoozeCount }) => snoozeCount)),
    repeated(verdicts.map(({ delayMs }) => delayMs)),
    sparse(verdicts.map(({ ranMs }) => ranMs)),
    sparse(verdicts.map(({ result }) => result)),
    sparse(verdicts.map(({ error }) => error)),
  ]
}

/** The values from $15 on: the job as it was claimed. */
export function givenValues(job: ClaimedRecord): unknown[] {
  return [
    job.queue,
    job.kind,
    job.payload,
    job.priority,
    job.uniqueKey,
    job.maxAttempts,
    job.runAt,
    job.createdAt,
    job.backoff,
    job.timeoutMs,
    job.meta,
  ]
}

/** The values of the form `final`. */
export function finalValues(namespace: string, { verdict, token }: Sealed, job: ClaimedRecord): unknown[] {
  return [
    namespace,
    token.leaseNo,
    token.nonce,
    verdict.jobId,
    verdict.state,
    verdict.attempt,
    verdict.handBackCount,
    verdict.snoozeCount,
    verdict.ranMs,
    verdict.result,
    job.queue,
    job.kind,
    job.payload,
    job.priority,
    job.maxAttempts,
    job.runAt,
    job.createdAt,
    job.startedAt,
    job.workerId,
    job.backoff,
    job.timeoutMs,
    verdict.error,
    job.meta,
  ]
}
