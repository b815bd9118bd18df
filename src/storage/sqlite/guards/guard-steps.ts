import { randomBytes } from 'node:crypto'
import type { GuardAsk, GuardEnd, GuardRef, GuardStanding, WindowAsk } from '../../../once/guard-store.ts'
import { encodeGuardToken, type GuardRow, judgeGuard, nextClaim } from '../../sql/guard-row.ts'
import { decodeToken } from '../../token.ts'
import type { Connection } from '../connection/connection.ts'

/** The steps on guards, as they are asked for: each in the transaction that the connection is in. */
export interface GuardSteps {
  claim(asks: readonly GuardAsk[]): readonly GuardStanding[]
  settle(ends: readonly GuardEnd[]): readonly boolean[]
  renew(ref: GuardRef, leaseMs: number): number | undefined
  forget(space: string, key: string): boolean
  seen(asks: readonly WindowAsk[]): readonly boolean[]
  prune(limit: number): number
}

/** One step by name, in plain data. */
export type GuardStep = {
  [Name in keyof GuardSteps]: [name: Name, args: Parameters<GuardSteps[Name]>]
}[keyof GuardSteps]

export function takeGuardStep(
  connection: Connection,
  namespace: string,
  [name, args]: GuardStep,
  now: number,
): ReturnType<GuardSteps[GuardStep[0]]> {
  switch (name) {
    case 'claim':
      return claimGuards(connection, namespace, args[0], now)
    case 'settle':
      return args[0].map((end) => settleGuard(connection, namespace, end, now))
    case 'renew':
      return renewGuard(connection, namespace, args[0], now, args[1])
    case 'forget':
      return forgetGuard(connection, namespace, args[0], args[1], now)
    case 'seen':
      return args[0].map((ask) => isSeen(connection, namespace, ask, now))
    case 'prune':
      return pruneGuards(connection, namespace, args[0], now)
  }
}

/** Most keys are new: each is written first, and looked at only where a row stood in the way. */
function claimGuards(
  connection: Connection,
  namespace: string,
  asks: readonly GuardAsk[],
  now: number,
): readonly GuardStanding[] {
  const nonces = randomBytes(8 * asks.length).toString('hex')
  const insert = connection.prepare(
    `INSERT INTO once_guard (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce, fingerprint,
       claimed_at, keep_ms, ends_at)
     VALUES (?1, ?2, ?3, 'running', ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING`,
  )
  return asks.map((ask, index) => {
    const nonce = nonces.slice(index * 16, index * 16 + 16)
    const micros = tickMicros(now)
    const { changes } = insert.run(
      namespace,
      ask.space,
      ask.key,
      ask.mode,
      micros,
      nonce,
      ask.fingerprint,
      now,
      ask.keepMs,
      now + ask.leaseMs,
    )
    if (changes === 1) return { status: 'run', token: encodeGuardToken(micros, nonce), attempt: 1 }
    return claimKnown(connection, namespace, ask, nonce, now, micros)
  })
}

function claimKnown(
  connection: Connection,
  namespace: string,
  ask: GuardAsk,
  nonce: string,
  now: number,
  micros: number,
): GuardStanding {
  const row = findGuard(connection, namespace, ask.space, ask.key)!
  const standing = judgeGuard(row, ask.fingerprint, now)
  if (standing) return standing
  const { tokenNo, attempt } = nextClaim(row, now, micros)
  connection.run(
    `UPDATE once_guard
     SET status = 'running', mode = ?2, attempt = ?3, token_no = ?4, token_nonce = ?5, fingerprint = ?6, result = NULL,
       claimed_at = ?7, keep_ms = ?8, ends_at = ?9
     WHERE guard = ?1`,
    row.guard,
    ask.mode,
    attempt,
    tokenNo,
    nonce,
    ask.fingerprint,
    now,
    ask.keepMs,
    now + ask.leaseMs,
  )
  return { status: 'run', token: encodeGuardToken(tokenNo, nonce), attempt }
}

/** Which of these keys are no longer free, for whoever would claim all of them or none; one that comes twice is its own rival. */
export function findTaken(
  connection: Connection,
  namespace: string,
  space: string,
  keys: readonly string[],
  now: number,
): readonly string[] {
  const asked = new Set<string>()
  return keys.filter((key) => {
    if (asked.has(key)) return true
    asked.add(key)
    return judgeGuard(findGuard(connection, namespace, space, key), null, now) !== undefined
  })
}

/** Claims a free key and ends the claim, in one. */
export function claimDone(
  connection: Connection,
  namespace: string,
  space: string,
  { key, keepMs }: { readonly key: string; readonly keepMs: number },
  now: number,
): void {
  const ask: GuardAsk = { space, key, leaseMs: keepMs, keepMs, mode: 'at-least-once', fingerprint: null }
  const [standing] = claimGuards(connection, namespace, [ask], now)
  if (standing?.status !== 'run') return
  settleGuard(connection, namespace, { space, key, token: standing.token, end: 'done', result: null }, now)
}

let lastMicros = 0

/** The store's clock counts milliseconds; within one, this process's claims count on, so that a key that was let go rises too. */
function tickMicros(now: number): number {
  lastMicros = Math.max(lastMicros + 1, now * 1_000)
  return lastMicros
}

function findGuard(
  connection: Connection,
  namespace: string,
  space: string,
  key: string,
): StoredGuard | undefined {
  return connection.get<StoredGuard>(
    'SELECT * FROM once_guard WHERE namespace = ?1 AND space = ?2 AND guard_key = ?3',
    namespace,
    space,
    key,
  )
}

interface StoredGuard extends GuardRow {
  readonly guard: number
}

/** Nobody else can have begun what is stuck, so it is still its claimer's. */
const isOurs = `namespace = ?1 AND space = ?2 AND guard_key = ?3 AND token_no = ?4 AND token_nonce = ?5
  AND status = 'running' AND (ends_at > ?6 OR mode = 'at-most-once')`

function settleGuard(
  connection: Connection,
  namespace: string,
  { space, key, token, end, result }: GuardEnd,
  now: number,
): boolean {
  const parts = decodeToken(token)
  if (!parts) return false
  const guard = [namespace, space, key, Number(parts.leaseNo), parts.nonce, now] as const
  if (end === 'released') return connection.run(`DELETE FROM once_guard WHERE ${isOurs}`, ...guard) === 1
  const kept = end === 'done' ? result : null
  return (
    connection.run(
      `UPDATE once_guard SET status = ?7, result = ?8, ends_at = ?6 + keep_ms WHERE ${isOurs}`,
      ...guard,
      end,
      kept,
    ) === 1
  )
}

function renewGuard(
  connection: Connection,
  namespace: string,
  { space, key, token }: GuardRef,
  now: number,
  leaseMs: number,
): number | undefined {
  const parts = decodeToken(token)
  if (!parts) return undefined
  return connection.get<{ ends_at: number }>(
    `UPDATE once_guard SET ends_at = max(ends_at, ?6 + ?7) WHERE ${isOurs} RETURNING ends_at`,
    namespace,
    space,
    key,
    Number(parts.leaseNo),
    parts.nonce,
    now,
    leaseMs,
  )?.ends_at
}

/** False when there was none, or only a row past its time. */
export function forgetGuard(
  connection: Connection,
  namespace: string,
  space: string,
  key: string,
  now: number,
): boolean {
  const gone = connection.get<{ known: number }>(
    `DELETE FROM once_guard WHERE namespace = ?1 AND space = ?2 AND guard_key = ?3
     RETURNING ${isKnown('?4')} AS known`,
    namespace,
    space,
    key,
    now,
  )
  return gone?.known === 1
}

function isSeen(
  connection: Connection,
  namespace: string,
  { window, value, windowMs }: WindowAsk,
  now: number,
): boolean {
  const opened = connection.run(
    `INSERT INTO once_window (namespace, window_key, value, ends_at) VALUES (?1, ?2, ?3, ?4 + ?5)
     ON CONFLICT DO UPDATE SET value = excluded.value, ends_at = excluded.ends_at
     WHERE ends_at <= ?4 OR value <> excluded.value`,
    namespace,
    window,
    value,
    now,
    windowMs,
  )
  return opened === 0
}

/** Until when a guard is known of, unless it is stuck; in the words of its index. */
const keptUntil = `CASE status WHEN 'running' THEN ends_at + keep_ms ELSE ends_at END`

/** Whether a guard is anything at an instant: neither free nor past its time. */
export function isKnown(now: string): string {
  return `(${keptUntil} > ${now} OR (status = 'running' AND mode = 'at-most-once'))`
}

const guardsOver = `FROM once_guard
  WHERE namespace = ?1 AND (status <> 'running' OR mode = 'at-least-once') AND ${keptUntil} <= ?2`
const windowsOver = 'FROM once_window WHERE namespace = ?1 AND ends_at <= ?2'

/** Whether `prune` would find anything. Asked of a reader. */
export function mayPruneGuards(connection: Connection, namespace: string, now: number): boolean {
  const sql = `SELECT EXISTS (SELECT 1 ${guardsOver}) OR EXISTS (SELECT 1 ${windowsOver}) AS over`
  return connection.get<{ over: number }>(sql, namespace, now)!.over === 1
}

function pruneGuards(connection: Connection, namespace: string, limit: number, now: number): number {
  const guards = connection.run(
    `DELETE FROM once_guard WHERE guard IN (SELECT guard ${guardsOver} LIMIT ?3)`,
    namespace,
    now,
    limit,
  )
  const windows = connection.run(
    `DELETE FROM once_window WHERE seen IN (SELECT seen ${windowsOver} LIMIT ?3)`,
    namespace,
    now,
    limit - guards,
  )
  return guards + windows
}
