import type { RequestKey } from '../backend.ts'
import type { Connection } from './connection/connection.ts'

/**
 * The keys of requests that must not be done twice, each with the answer that was given. They are read and written in
 * the transaction of the call they belong to, so the key is there exactly when the effect is. SQLite has one writer:
 * of two calls with one key the second finds the first's answer, and none is ever found half done.
 */
export interface KeptAnswer {
  readonly fingerprint: string
  readonly answer: string
}

/** What is kept for this key; a key whose time is over counts as none. */
export function findKept(
  connection: Connection,
  namespace: string,
  { caller, key }: RequestKey,
  now: number,
): KeptAnswer | undefined {
  return connection.get<KeptAnswer>(
    `SELECT fingerprint, answer FROM request_key
     WHERE namespace = ?1 AND caller = ?2 AND key = ?3 AND expires_at > ?4`,
    namespace,
    caller,
    key,
    now,
  )
}

/** Writes the key and its answer over one whose time is over, if there is such. */
export function keepAnswer(
  connection: Connection,
  namespace: string,
  { caller, key, fingerprint, keepMs }: RequestKey,
  answer: string,
  now: number,
): void {
  connection.run(
    `INSERT OR REPLACE INTO request_key (namespace, caller, key, fingerprint, answer, created_at, expires_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
    namespace,
    caller,
    key,
    fingerprint,
    answer,
    now,
    now + keepMs,
  )
}

/** Forgets up to `limit` keys of any namespace whose time is over, the oldest first; answers how many. */
export function forgetKeys(connection: Connection, limit: number, now: number): number {
  return connection.run(
    `DELETE FROM request_key
     WHERE (namespace, caller, key) IN (SELECT namespace, caller, key FROM request_key
       WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)`,
    now,
    limit,
  )
}
