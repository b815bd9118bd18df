import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError } from '../../core/errors.ts'
import type { RequestKey } from '../backend.ts'
import { keyInProgress, keyMismatch } from '../request-key.ts'
import type { Database } from './database.ts'
import { count, last, one, operation, type Procedure, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * Idempotency keys with the answers of their requests. The store reads and writes a key in the transaction of its call,
 * so the key exists exactly if the effect does. The engines separate two calls with the same key differently: SQLite
 * has one writer, Postgres takes an advisory lock, MariaDB locks the key's row.
 */
export interface IdempotentResponse {
  readonly fingerprint: string
  readonly answer: string
}

const select = statement(
  'request_key_find',
  { namespace: 'text', caller: 'text', key: 'text' },
  (d) => `
SELECT fingerprint, answer FROM @request_key
WHERE namespace = :namespace AND caller = :caller AND ${d.quote('key')} = :key AND expires_at > ${d.now}
  AND answer IS NOT NULL`,
)

/** Finds the unexpired answer of this key. */
export function findAnswer(
  namespace: string,
  { caller, key }: RequestKey,
): Procedure<IdempotentResponse | undefined> {
  return one<IdempotentResponse>(select({ namespace, caller, key }))
}

/** Throws unless `kept` answers this request. `isOurs`: no other call with this key is in progress. */
export function checkAnswer(
  kept: IdempotentResponse | undefined,
  { key, fingerprint }: RequestKey,
  isOurs: boolean,
): void {
  if (kept && kept.fingerprint !== fingerprint) throw keyMismatch(key)
  if (!kept && !isOurs) throw keyInProgress(key)
}

const upsert = statement(
  'request_key_keep',
  {
    ...{ namespace: 'text', caller: 'text', key: 'text', fingerprint: 'text', answer: 'text' },
    keepMs: 'integer',
  },
  (d) =>
    d.upsert({
      into: '@request_key',
      columns: `namespace, caller, ${d.quote('key')}, fingerprint, answer, created_at, expires_at`,
      source: `VALUES (:namespace, :caller, :key, :fingerprint, :answer, ${d.now}, ${d.now} + :keepMs)`,
      key: `namespace, caller, ${d.quote('key')}`,
      // Replaces an expired key.
      set: {
        fingerprint: 'new.fingerprint',
        answer: 'new.answer',
        created_at: 'new.created_at',
        expires_at: 'new.expires_at',
      },
    }),
)

/** Writes the key with its answer. */
export function* keepAnswer(
  namespace: string,
  { caller, key, fingerprint, keepMs }: RequestKey,
  answer: string,
): Procedure<void> {
  yield* run(upsert({ namespace, caller, key, fingerprint, keepMs, answer }))
}

const deleteOver = statement('request_key_prune', { limit: 'integer' }, (d) =>
  d.deleteFirst({
    from: '@request_key',
    key: `namespace, caller, ${d.quote('key')}`,
    where: `expires_at <= ${d.now}`,
    orderBy: 'expires_at',
    limit: ':limit',
  }),
)

const selectOver = statement(
  'request_key_is_over',
  {},
  (d) => `SELECT 1 FROM @request_key WHERE expires_at <= ${d.now} LIMIT 1`,
)

/** Deletes up to `limit` expired keys of all namespaces, the oldest first, and returns their number. */
export function pruneRequestKeys(database: Database, limit: number): Promise<number> {
  return database.run(pruneKeys, [limit])
}

const pruneKeys = operation({
  name: 'prune request keys',
  *procedure(limit: number) {
    return yield* last(count(deleteOver({ limit })))
  },
  upkeep: {
    *isNeeded() {
      return (yield* one(selectOver({}))) !== undefined
    },
    otherwise: 0,
  },
})

/** How far an attempt got. */
export interface AttemptState {
  isCommitting: boolean
}

/** How long to retry a commit whose answer was lost. */
const lostCommitMs = 10_000

/**
 * Runs an attempt, and runs it again if the answer of its commit was lost. Only this commit can be retried: either the
 * key and the effect exist, or neither. The database server may need a moment to notice the lost connection, and holds
 * the key until then.
 */
export async function retryLostCommit<Answer>(
  attempt: (state: AttemptState) => Promise<Answer>,
  isLost: (error: unknown) => boolean,
): Promise<Answer> {
  const until = performance.now() + lostCommitMs
  let wasLost = false
  for (let pauseMs = 20; ; pauseMs *= 2) {
    const state: AttemptState = { isCommitting: false }
    try {
      return await attempt(state)
    } catch (error) {
      const isGone = isLost(error)
      wasLost ||= isGone && state.isCommitting
      const isAgain = wasLost && (isGone || isSignalboxError(error, 'in_progress'))
      if (!isAgain || performance.now() + pauseMs > until) throw error
    }
    await sleep(pauseMs)
  }
}
