import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError } from '../../core/errors.ts'
import type { RequestKey } from '../backend.ts'
import { keyInProgress, keyMismatch } from '../request-key.ts'
import type { Database } from './database.ts'
import { count, last, one, operation, type Procedure, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * The keys of requests that must not be done twice, each with its answer. They are read and written in the transaction of
 * the call they belong to, so the key is there exactly when the effect is. How two calls with one key are kept apart
 * differs by engine: SQLite has one writer, Postgres an advisory lock, MariaDB locks the key's row.
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

/** The answer that is kept with this key; none once its time is over. */
export function findKept(
  namespace: string,
  { caller, key }: RequestKey,
): Procedure<IdempotentResponse | undefined> {
  return one<IdempotentResponse>(select({ namespace, caller, key }))
}

/** Throws unless what was found is an answer to this request. `isOurs`: no other call with this key is under way. */
export function checkKept(
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
      // One whose time is over.
      set: {
        fingerprint: 'new.fingerprint',
        answer: 'new.answer',
        created_at: 'new.created_at',
        expires_at: 'new.expires_at',
      },
    }),
)

/** Writes the key and its answer. */
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

/** Forgets up to `limit` keys of any namespace whose time is over, the oldest first; answers how many. */
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

/** How far an attempt came. */
export interface AttemptState {
  isCommitting: boolean
}

/** How long to ask again for a commit whose answer was lost. */
const lostCommitMs = 10_000

/**
 * Runs an attempt, and again when its commit's answer was lost: unlike any other commit, this one can be asked for again,
 * because the key is there, or nothing is. The server may take a moment to notice that the connection is gone, and holds
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
