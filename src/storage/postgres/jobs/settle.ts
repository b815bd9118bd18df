import { setTimeout as sleep } from 'node:timers/promises'
import type { Verdict } from '../../../jobs/index.ts'
import { boundAttemptError, leavesAttempt } from '../../attempt-error.ts'
import { decodeToken, type Token } from '../../token.ts'
import { inCallers, requireTransaction, wrongDatabase } from '../connection/caller-transaction.ts'
import { failUnless, nowMs, perSchema, repeated, type Statement, sparse } from '../connection/statement.ts'
import type { Scope } from './space.ts'

/**
 * Writes any number of verdicts in one statement. It finds each row by its key, and locks the row if the token matches
 * and the lease is live. Final rows move to the history. The others become ready again, or cancelled if that was
 * requested.
 *
 * The statement skips a row that another transaction has locked: that transaction probably ends the same attempt. It
 * also cannot write a row that is newer than its snapshot, for example just after a renewal. It answers both as
 * `again`.
 */
export interface SettleStatements {
  readonly settle: Statement
  /** Like `settle`, and writes the rows of failed attempts. */
  readonly settleFailed: Statement
  /** Locks the rows in a user's transaction, so that the `settleOrFail` after it sees their newest version. */
  readonly lock: Statement
  /** Like `settle`, but fails unless it writes every verdict. */
  readonly settleOrFail: Statement
  readonly settleFailedOrFail: Statement
  /**
   * Like `settleOrFail`, for one final verdict. The DELETE waits for the row and reads its newest version, without a
   * lock.
   */
  readonly finishOrFail: Statement
  /** The planner settings of the store, for a connection that may lack them: see `plannerSettings`. */
  readonly byIndex: Statement
}

/** The columns that move with a job into the history and back. */
export const carried = `namespace, id, queue, kind, payload, priority, unique_key, max_attempts, run_at, created_at, lease_no,
    settled_tokens, backoff, timeout_ms, meta, limit_key`
/** The columns that only the history has, or that change at the end. */
export const ending = `state, attempt, hand_back_count, snooze_count, started_at, finished_at, worker_id, lease_nonce, result,
    error, cancel_ignored`

/** The tokens of ended attempts that a row remembers: the last ones, the newest first. */
export function settledTokens(row: string): string {
  return `left(concat_ws(' ', ${row}.lease_no || '.' || ${row}.lease_nonce, ${row}.settled_tokens), 800)`
}

/** Whether the token of `v` holds the row `q`. `IS TRUE` keeps the planner from using an index of this condition. */
export const isHeld: string = `(q.state = 'running' AND q.lease_no = v.lease_no AND q.lease_nonce = v.nonce
    AND q.lease_ends_at > (SELECT ${nowMs})) IS TRUE`

/** The columns of an attempt, in the order in which they are written. */
export const attemptColumns = `namespace, job_id, number, attempt, queue, kind, outcome, worker_id, release, started_at, ended_at,
    error`

/** The release of the worker that runs the attempt. An older run of the same worker id does not count. */
export function releaseOf(s: string, job: string): string {
  return `(SELECT w.release_name FROM ${s}.fleet_worker w
    WHERE w.namespace = ${job}.namespace AND w.id = ${job}.worker_id COLLATE "C" AND w.started_at <= ${job}.started_at)`
}

export const leaseLostReason = 'lease lost'

export const settleStatements: (schema: string) => SettleStatements = perSchema((s) => {
  const isBack = `becomes IN ('ready', 'scheduled')`
  // Only in the statements with failures, so that successful attempts are not slower.
  const failed = `
failed AS (
  INSERT INTO ${s}.job_attempt (${attemptColumns})
  SELECT namespace, id, lease_no, attempt, queue, kind, 'failed', worker_id, ${releaseOf(s, 'back')}, started_at, clock.now,
    attempt_error
  FROM clock, back WHERE attempt_error IS NOT NULL
  UNION ALL
  SELECT namespace, id, lease_no, new_attempt, queue, kind, CASE becomes WHEN 'dead' THEN 'dead' ELSE 'failed' END, worker_id,
    ${releaseOf(s, 'gone')}, coalesce(clock.now - ran_ms, started_at), clock.now, attempt_error
  FROM clock, gone WHERE attempt_error IS NOT NULL
  ON CONFLICT DO NOTHING
),`
  const settleWith = (keepsAttempts: boolean) => `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),
verdict AS MATERIALIZED (
  SELECT v.nr::int AS nr, v.id COLLATE "C" AS id, coalesce(v.lease_no, ($3::bigint[])[1]) AS lease_no,
         coalesce(v.nonce, ($4::text[])[1]) AS nonce, coalesce(v.state, ($5::text[])[1]) AS state,
         coalesce(v.attempt, ($6::int[])[1]) AS attempt, coalesce(v.hand_back_count, ($7::int[])[1]) AS hand_back_count,
         coalesce(v.snooze_count, ($8::int[])[1]) AS snooze_count, coalesce(v.delay_ms, ($9::bigint[])[1]) AS delay_ms,
         v.ran_ms, v.result, v.error${keepsAttempts ? ', v.attempt_error' : ''}
  FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $9::bigint[], $10::bigint[],
    $11::text[], $12::text[]${keepsAttempts ? ', $13::text[]' : ''}) WITH ORDINALITY
    v (id, lease_no, nonce, state, attempt, hand_back_count, snooze_count, delay_ms, ran_ms, result, error${keepsAttempts ? ', attempt_error' : ''}, nr)
),
request AS MATERIALIZED (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1),
held AS MATERIALIZED (
  SELECT v.*, f.place, v.id IN (SELECT job_id FROM request) AS is_requested,
         CASE WHEN v.state IN ('ready', 'scheduled') AND v.id IN (SELECT job_id FROM request) THEN 'cancelled'
              ELSE v.state END AS becomes
  FROM verdict v CROSS JOIN LATERAL (
    SELECT q.ctid AS place FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.id = v.id AND ${isHeld}
    OFFSET 0 FOR UPDATE SKIP LOCKED
  ) f
),
gone AS (
  DELETE FROM ${s}.job_queue q USING held v WHERE q.ctid = v.place AND NOT v.${isBack}
  RETURNING q.*, v.nr, v.becomes, v.is_requested, v.ran_ms, v.result, v.attempt AS new_attempt,
    v.hand_back_count AS new_hand_back_count, v.snooze_count AS new_snooze_count, v.error AS new_error${keepsAttempts ? ', v.attempt_error' : ''}
),
over AS (
  INSERT INTO ${s}.job_history (${carried}, ${ending})
  SELECT ${carried}, becomes, new_attempt, new_hand_back_count, new_snooze_count,
    coalesce(clock.now - ran_ms, started_at), clock.now, worker_id, lease_nonce, result, new_error,
    becomes = 'completed' AND is_requested
  FROM clock, gone
),
back AS (
  UPDATE ${s}.job_queue q
  SET state = CASE WHEN v.becomes = 'ready' AND q.run_at > clock.now THEN 'scheduled'
                   WHEN v.becomes = 'scheduled' AND v.delay_ms > 0 THEN 'scheduled' ELSE 'ready' END,
    attempt = v.attempt, hand_back_count = v.hand_back_count, snooze_count = v.snooze_count,
    run_at = CASE WHEN v.becomes = 'scheduled' THEN clock.now + v.delay_ms ELSE q.run_at END, updated_at = clock.now,
    started_at = coalesce(clock.now - v.ran_ms, q.started_at), error = v.error, lease_ends_at = NULL,
    settled_tokens = ${settledTokens('q')}
  FROM clock, held v WHERE q.ctid = v.place AND v.${isBack}
  RETURNING v.nr${keepsAttempts ? ', q.namespace, q.id, q.lease_no, q.attempt, q.queue, q.kind, q.worker_id, q.started_at, v.attempt_error' : ''}
),${keepsAttempts ? failed : ''}
heeded AS (
  DELETE FROM ${s}.job_cancel c USING gone WHERE c.namespace = $1 AND c.job_id = gone.id AND gone.is_requested
),
took AS MATERIALIZED (SELECT nr FROM gone UNION ALL SELECT nr FROM back)`
  // A written verdict has no row in the answer, so the answer is nearly always empty.
  const answers = `
SELECT v.nr, EXISTS (SELECT FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.id = v.id AND ${isHeld} OFFSET 0) AS again
FROM verdict v WHERE v.nr NOT IN (SELECT nr FROM took)`
  const orFail = `
SELECT ${failUnless('(SELECT count(*) FROM took) = cardinality($2::text[])', leaseLostReason)}`
  return {
    settle: { name: 'sb_settle', text: `${settleWith(false)}${answers}` },
    settleFailed: { name: 'sb_settle_failed', text: `${settleWith(true)}${answers}` },
    lock: {
      name: 'sb_settle_lock',
      text: `
SELECT FROM unnest($2::text[]) v (id)
CROSS JOIN LATERAL (SELECT FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.id = v.id OFFSET 0 FOR UPDATE) f`,
    },
    settleOrFail: { name: 'sb_settle_or_fail', text: `${settleWith(false)}${orFail}` },
    settleFailedOrFail: { name: 'sb_settle_failed_or_fail', text: `${settleWith(true)}${orFail}` },
    finishOrFail: {
      name: 'sb_finish_or_fail',
      text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),
gone AS (
  DELETE FROM ${s}.job_queue q
  WHERE q.namespace = $1 AND q.id = $2 AND (q.state = 'running' AND q.lease_no = $3::bigint AND q.lease_nonce = $4
    AND q.lease_ends_at > ${nowMs}) IS TRUE
  RETURNING q.*
),
heeded AS (DELETE FROM ${s}.job_cancel c WHERE c.namespace = $1 AND c.job_id = $2 AND EXISTS (SELECT FROM gone)),
over AS (
  INSERT INTO ${s}.job_history (${carried}, ${ending})
  SELECT ${carried}, $5, $6::int, $7::int, $8::int, coalesce(clock.now - $9::bigint, started_at), clock.now, worker_id,
    lease_nonce, $10, $11,
    $5 = 'completed' AND EXISTS (SELECT FROM ${s}.job_cancel c WHERE c.namespace = $1 AND c.job_id = $2)
  FROM clock, gone
)
SELECT ${failUnless('EXISTS (SELECT FROM gone)', leaseLostReason)}`,
    },
    byIndex: {
      name: 'sb_settle_by_index',
      text: `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`,
    },
  }
})

/** A verdict with a well-formed token. */
export interface DecodedVerdict {
  readonly verdict: Verdict
  readonly token: Token
}

/** Whether a verdict leaves a row of its attempt. Then a `…Failed` statement is needed, which has one more value. */
export function haveFailed(decoded: readonly DecodedVerdict[]): boolean {
  return decoded.some(({ verdict }) => leavesAttempt(verdict))
}

export function verdictValues(namespace: string, decoded: readonly DecodedVerdict[]): unknown[] {
  const verdicts = decoded.map(({ verdict }) => verdict)
  const attemptErrors = haveFailed(decoded)
    ? [verdicts.map((verdict) => (leavesAttempt(verdict) ? boundAttemptError(verdict.error!) : null))]
    : []
  return [
    namespace,
    verdicts.map(({ jobId }) => jobId),
    repeated(decoded.map(({ token }) => token.leaseNo)),
    repeated(decoded.map(({ token }) => token.nonce)),
    repeated(verdicts.map(({ state }) => state)),
    repeated(verdicts.map(({ attempt }) => attempt)),
    repeated(verdicts.map(({ handBackCount }) => handBackCount)),
    repeated(verdicts.map(({ snoozeCount }) => snoozeCount)),
    repeated(verdicts.map(({ delayMs }) => delayMs)),
    sparse(verdicts.map(({ ranMs }) => ranMs)),
    sparse(verdicts.map(({ result }) => result)),
    sparse(verdicts.map(({ error }) => error)),
    ...attemptErrors,
  ]
}

/**
 * The values of `finishOrFail`. Undefined: several verdicts, a job that becomes ready again, or a row of its attempt.
 */
export function finishValues(namespace: string, decoded: readonly DecodedVerdict[]): unknown[] | undefined {
  const [{ verdict, token }, other] = decoded as [DecodedVerdict, DecodedVerdict?]
  const { jobId, state, attempt, handBackCount, snoozeCount, ranMs, result, error } = verdict
  if (other !== undefined || state === 'ready' || state === 'scheduled' || leavesAttempt(verdict))
    return undefined
  return [
    ...[namespace, jobId, token.leaseNo, token.nonce],
    ...[state, attempt, handBackCount, snoozeCount, ranMs, result, error],
  ]
}

/** A verdict that was not written. */
interface UnsettledRow extends Record<string, unknown> {
  readonly nr: number
  readonly again: boolean
}

/** How often the store tries a verdict while another transaction has its row: for a quarter of a second in all. */
const maxTries = 7

/** `again`: another transaction has locked the row, or has just changed it. */
export type Settled = 'written' | 'lost' | 'again'

/**
 * Writes the verdicts whose lease is still valid. Answers for each whether it was written. `write` may share its
 * statement with other calls; repeats happen here, so a verdict that must be tried again delays no other call.
 */
export async function settle(
  scope: Scope,
  verdicts: readonly Verdict[],
  write: Write = (decoded) => trySettle(scope, decoded),
): Promise<readonly boolean[]> {
  const answers = verdicts.map(() => false)
  let left = listFirst(verdicts)
  for (let tries = 0; left.length > 0 && tries < maxTries; tries++) {
    if (tries > 0) await sleep(2 ** (tries + 1))
    const settled = await write(left)
    for (const [index, { at }] of left.entries()) answers[at] = settled[index] === 'written'
    left = left.filter((_, index) => settled[index] === 'again')
  }
  const isBack = verdicts.some(({ state }) => state === 'ready' || state === 'scheduled')
  if (isBack) scope.sender.onCommit(() => scope.positions.forget())
  return answers
}

type Write = (decoded: readonly DecodedVerdict[]) => Promise<readonly Settled[]>

/** Tries once to write verdicts. They may have any order, and several may be on one attempt. */
export async function trySettle(
  { sender, schemaName, namespace }: Scope,
  decoded: readonly DecodedVerdict[],
): Promise<readonly Settled[]> {
  const settled: Settled[] = decoded.map(() => 'written')
  const values = verdictValues(namespace, decoded)
  const { settle, settleFailed } = settleStatements(schemaName)
  const { rows } = await sender.run<UnsettledRow>(haveFailed(decoded) ? settleFailed : settle, values)
  for (const { nr, again } of rows) settled[nr - 1] = again ? 'again' : 'lost'
  return settled
}

/** Keeps the first verdict on each attempt. Sorted by id, so that two calls do not deadlock. */
function listFirst(verdicts: readonly Verdict[]): readonly Numbered[] {
  const numbered: Numbered[] = []
  for (let at = 0; at < verdicts.length; at++) {
    const verdict = verdicts[at]!
    const token = decodeToken(verdict.token)
    if (token !== undefined) numbered.push({ verdict, token, at })
  }
  numbered.sort((a, b) => byAttempt(a.verdict, b.verdict))
  return numbered.filter(
    ({ verdict }, index) => index === 0 || byAttempt(numbered[index - 1]!.verdict, verdict) !== 0,
  )
}

function byAttempt(a: Verdict, b: Verdict): number {
  if (a.jobId !== b.jobId) return a.jobId < b.jobId ? -1 : 1
  return a.token === b.token ? 0 : a.token < b.token ? -1 : 1
}

/** Writes a verdict in the caller's transaction. */
export async function settleIn(scope: Scope, tx: unknown, verdict: Verdict): Promise<boolean> {
  const client = await requireTransaction(tx)
  const token = decodeToken(verdict.token)
  if (token === undefined) return false
  const { lock, settle, settleFailed } = settleStatements(scope.schemaName)
  const values = verdictValues(scope.namespace, [{ verdict, token }])
  // Without names: the store prepares no statements on a caller's connection.
  return inCallers(async () => {
    const here = `SELECT FROM ${scope.schemaName}.signalbox_meta WHERE key = 'store_id' AND value = $1`
    if ((await client.query(here, [scope.storeId])).rows.length === 0) throw wrongDatabase()
    await client.query(lock.text, values.slice(0, 2))
    const { text } = leavesAttempt(verdict) ? settleFailed : settle
    const { rows } = await client.query<UnsettledRow>(text, values)
    return rows.length === 0
  })
}

interface Numbered extends DecodedVerdict {
  /** The index of the verdict in the call. */
  readonly at: number
}
