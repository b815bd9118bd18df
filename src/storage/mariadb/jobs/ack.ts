import type { Verdict } from '../../../jobs/index.ts'
import { boundAttemptError, leavesAttempt } from '../../attempt-error.ts'
import { decodeToken } from '../../token.ts'
import { movingMs, nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { attemptColumns, carried, ending, releaseOf } from './history.ts'

/**
 * One verdict as one compound statement (`BEGIN NOT ATOMIC … END`), for a caller's connection, which may not allow
 * several statements in one packet: one round trip, and nothing can be half-sent. Its first statement is the fence: it
 * locks the row only if id, token and a live lease match, and reads the current row whatever snapshot the transaction
 * has. Without such a row, nothing is written and the answer is `lost`. MariaDB does not undo a transaction when one of
 * its statements fails, so a savepoint makes the verdict all or nothing, even if the caller commits after an error. The
 * store's own transactions need no savepoint: they are rolled back after any error, and MariaDB compiles each line of
 * this statement again for every job.
 *
 * All texts are bound as bytes, which the driver writes as hexadecimal literals. These are correct in any character set
 * and sql_mode of the caller's session, including NO_BACKSLASH_ESCAPES.
 */
export interface Ack {
  readonly sql: string
  readonly values: readonly unknown[]
}

export interface AckOptions {
  /**
   * Whether the job has a cancellation request. In a caller's REPEATABLE READ, a subquery would lock the gap in
   * `job_cancel` and block every cancellation until that transaction ends, so callers look it up beforehand.
   */
  readonly cancelRequested: boolean | 'look'
  /** The release of the worker, for an attempt that failed. If missing, the transaction looks it up. */
  readonly release?: string | null
  /** Check first that the session is in a transaction, and on the store's database. */
  readonly foreign: boolean
  /**
   * Commit if the verdict was written. The savepoint must still exist: without it, other code ended the transaction.
   * The commit sets the savepoint again for the next transaction.
   */
  readonly commit?: string
}

export type AckAnswer = 'took' | 'lost' | 'no_transaction' | 'wrong_database'

/** The statement that writes the verdict. Undefined: no lease can match its token. */
export function encodeAck(store: Store, verdict: Verdict, options: AckOptions): Ack | undefined {
  const token = decodeToken(verdict.token)
  if (token === undefined) return undefined
  const { tables } = store
  const values: unknown[] = []
  const text = (value: string | null): string => {
    if (value === null) return 'NULL'
    values.push(Buffer.from(value))
    return '_utf8mb4 ?'
  }
  const number = (value: number | string): string => {
    values.push(Number(value))
    return '?'
  }
  const key = () => `namespace = ${text(store.namespace)} AND id = ${text(verdict.jobId)}`
  const held = () =>
    `${key()} AND state = 'running' AND lease_no = ${number(token.leaseNo)} AND lease_nonce = ${text(token.nonce)}
        AND lease_ends_at > ${movingMs}`
  const began = () =>
    verdict.ranMs === null ? 'started_at' : `${nowMs} - ${number(Math.max(0, Math.round(verdict.ranMs)))}`
  const cancelled = () =>
    options.cancelRequested === 'look'
      ? `EXISTS (SELECT 1 FROM ${tables.cancel} c WHERE c.namespace = ${text(store.namespace)} AND c.job_id = ${text(verdict.jobId)})`
      : options.cancelRequested
        ? 'TRUE'
        : 'FALSE'

  const release = () => (options.release === undefined ? releaseOf(store, 'q') : text(options.release))
  /** The row of the attempt, if it failed. The job's row is then locked, and still in the queue. */
  const keepAttempt = () =>
    leavesAttempt(verdict)
      ? `INSERT IGNORE INTO ${tables.attempt} (${attemptColumns})
        SELECT namespace, id, lease_no, ${number(verdict.attempt)}, queue, kind,
          '${verdict.state === 'dead' ? 'dead' : 'failed'}', worker_id, ${release()}, ${began()}, ${nowMs},
          ${text(boundAttemptError(verdict.error!))}
        FROM ${tables.queue} q WHERE ${key()};`
      : ''

  // Values are bound in the order of the text, so each part is built at its position.
  const end = (state: string) => {
    const parts = [
      `INSERT INTO ${tables.history} (${carried}, ${ending})
      SELECT ${carried}, '${state}', ${number(verdict.attempt)}, ${number(verdict.handBackCount)},
        ${number(verdict.snoozeCount)}, ${began()}, ${nowMs},
        worker_id, lease_nonce, ${text(verdict.result)}, ${text(verdict.error)},
        ${state === 'completed' ? cancelled() : 'FALSE'}
      FROM ${tables.queue} WHERE ${held()} FOR UPDATE;`,
      `SET signalbox_took = ROW_COUNT();
    IF signalbox_took > 0 THEN`,
    ]
    if (state === 'dead') {
      parts.push(`INSERT IGNORE INTO ${tables.dead} (namespace, queue, id, kind)
        SELECT namespace, queue, id, kind FROM ${tables.queue} WHERE ${key()};`)
    }
    parts.push(`${keepAttempt()}DELETE FROM ${tables.queue} WHERE ${key()};
    END IF;`)
    return parts.join('\n    ')
  }
  const keepingAttempt = () =>
    leavesAttempt(verdict) ? ` IF signalbox_took > 0 THEN ${keepAttempt()} END IF;` : ''
  const bringBack = () => `UPDATE ${tables.queue}
      SET state = ${verdict.state === 'ready' ? `IF(run_at <= ${nowMs}, 'ready', 'scheduled')` : verdict.delayMs > 0 ? "'scheduled'" : "'ready'"},
        attempt = ${number(verdict.attempt)}, hand_back_count = ${number(verdict.handBackCount)},
        snooze_count = ${number(verdict.snoozeCount)},
        run_at = ${verdict.state === 'ready' ? 'run_at' : `${nowMs} + ${number(Math.max(0, Math.round(verdict.delayMs)))}`},
        started_at = ${began()}, error = ${text(verdict.error)}, settled_tokens = CONCAT_WS(' ', settled_tokens, CONCAT(lease_no, '.', lease_nonce)),
        lease_ends_at = NULL, updated_at = ${nowMs}
      WHERE ${held()};
    SET signalbox_took = ROW_COUNT();${keepingAttempt()}`
  const write = () => {
    if (verdict.state !== 'ready' && verdict.state !== 'scheduled') return end(verdict.state)
    if (options.cancelRequested === true) return end('cancelled')
    if (options.cancelRequested === false) return bringBack()
    return `IF ${cancelled()} THEN
    ${end('cancelled')}
    ELSE
    ${bringBack()}
    END IF;`
  }
  const answer = "SELECT IF(signalbox_took > 0, 'took', 'lost') AS answer;"
  const allOrNothing = () => `BEGIN
    DECLARE signalbox_took INT DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
      GET DIAGNOSTICS CONDITION 1 @signalbox_errno = MYSQL_ERRNO;
      IF @signalbox_errno <> 1213 AND @signalbox_errno <> 1305 THEN ROLLBACK TO SAVEPOINT signalbox_ack; END IF;
      RESIGNAL;
    END;
    SAVEPOINT signalbox_ack;
    ${write()}
    ${answer}
  END;`
  const guard = options.commit

  const sql = options.foreign
    ? `BEGIN NOT ATOMIC
  IF @@in_transaction = 0 AND @@autocommit = 1 THEN SELECT 'no_transaction' AS answer;
  ELSEIF NOT EXISTS (SELECT 1 FROM ${tables.meta} WHERE name = 'store_id' AND value = ${text(store.storeId)}) THEN
    SELECT 'wrong_database' AS answer;
  ELSE
  ${allOrNothing()}
  END IF;
END`
    : `BEGIN NOT ATOMIC
  DECLARE signalbox_took INT DEFAULT 0;
  ${guard === undefined ? '' : `RELEASE SAVEPOINT ${guard};`}
  ${write()}
  ${guard === undefined ? '' : `IF signalbox_took > 0 THEN COMMIT; SAVEPOINT ${guard}; END IF;`}
  ${answer}
END`
  return { sql, values }
}

/**
 * The result of the compound statement's only SELECT. The driver reports the end of the statement as a separate result.
 */
export function decodeAckAnswer(answer: unknown): AckAnswer | undefined {
  const [first] = answer as readonly unknown[]
  const row = Array.isArray(first) ? first[0] : first
  return (row as { answer?: AckAnswer } | undefined)?.answer
}
