import { SignalboxError } from '../../core/errors.ts'
import type { JobStore } from '../../jobs/index.ts'
import type { RequestKey } from '../backend.ts'
import { createKeyedJobs, decodeAnswer, encodeAnswer, leavesKey } from '../request-key.ts'
import {
  type AttemptState,
  checkAnswer,
  findAnswer,
  type IdempotentResponse,
  retryLostCommit,
} from '../sql/request-keys.ts'
import { begin, type Call, commit, PinnedCalls, type Statement } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import { errnoOf, isAnswerLost, lockedByOthers } from './connection/failures.ts'
import { cutPieces } from './connection/packets.ts'
import type { Store } from './engine-store.ts'
import { createMariadbJobs } from './jobs/jobs.ts'

/**
 * Requests that must not take effect twice: one transaction writes the key, its effect and its answer.
 *
 *     START, the key without an answer, look ──▶ the call itself ──▶ its answer, COMMIT
 *
 * The key's row is the lock. No lock wait is allowed there, so another call with the same key fails at once; it sees no
 * answer, so it knows that the first call is in progress. No other call ever sees a row without an answer.
 */
export function createKeyed(store: Store, jobs: JobStore): (key: RequestKey) => JobStore {
  return (key) => createKeyedJobs(jobs, (method, args) => once({ store, key, method, args }))
}

interface KeyedCall {
  readonly store: Store
  readonly key: RequestKey
  readonly method: keyof JobStore
  readonly args: readonly unknown[]
}

function once(keyed: KeyedCall): Promise<unknown> {
  return retryLostCommit((state) => {
    let tries = 0
    return keyed.store.calls.run('do a request with a key', (call) => perform(call, keyed, ++tries, state))
  }, isAnswerLost)
}

/** One try. If it throws, the caller rolls the transaction back. */
async function perform(call: Call, keyed: KeyedCall, tries: number, state: AttemptState): Promise<unknown> {
  const { store, method, args } = keyed
  state.isCommitting = false
  const kept = await take(call, keyed, tries)
  if (kept !== undefined) {
    await call.packet([['ROLLBACK', []]])
    return decodeAnswer(kept)
  }
  const calls = new PinnedCalls(call)
  const jobs = createMariadbJobs({ ...store, calls })
  try {
    const answer = await Reflect.apply(jobs[method] as () => Promise<unknown>, jobs, args)
    const ending = leavesKey(method, answer) ? keepAnswer(keyed, encodeAnswer(answer)) : [leaveNone(keyed)]
    for (const statement of ending.slice(0, -1)) await call.packet([statement])
    state.isCommitting = true
    await call.packet([ending.at(-1)!, commit])
    calls.committed()
    return answer
  } catch (error) {
    // A claim may have remembered a position after jobs that are ready again now.
    store.memory.positions.forget()
    throw error
  }
}

/** Begins with the key's row. Returns the stored answer, if any. */
async function take(call: Call, { store, key }: KeyedCall, tries: number): Promise<string | undefined> {
  const { caller, key: name, fingerprint, keepMs } = key
  const insert: Statement = [
    // Overwrites an expired row. `expires_at` comes last, because the other assignments read it.
    `SET STATEMENT innodb_lock_wait_timeout = 0 FOR
      INSERT INTO ${store.tables.requestKey} (namespace, caller, \`key\`, fingerprint, answer, created_at, expires_at)
      VALUES (?, ?, ?, ?, NULL, ${nowMs}, ${nowMs} + ?)
      ON DUPLICATE KEY UPDATE fingerprint = IF(expires_at > ${nowMs}, fingerprint, VALUES(fingerprint)),
        answer = IF(expires_at > ${nowMs}, answer, NULL),
        created_at = IF(expires_at > ${nowMs}, created_at, VALUES(created_at)),
        expires_at = IF(expires_at > ${nowMs}, expires_at, VALUES(expires_at))`,
    [store.namespace, caller, name, fingerprint, keepMs],
  ]
  const look = (before: readonly Statement[]) =>
    store.database.runOn(call, findAnswer(store.namespace, key), true, before)
  let kept: IdempotentResponse | undefined
  let isOurs = true
  try {
    kept = await look([begin, insert])
  } catch (error) {
    if (errnoOf(error) !== 1205) throw error
    isOurs = false
    kept = await look([begin])
    // A prune may be deleting an expired key. That is fast, so the call is tried again.
    if (!kept && tries < 3) throw lockedByOthers('take the key of a request')
  }
  checkAnswer(kept, key, isOurs)
  return kept?.answer
}

const thisKey = 'namespace = ? AND caller = ? AND `key` = ?'

/** Writes the answer, in as many pieces as packets require; the server joins them. */
function keepAnswer({ store, key }: KeyedCall, answer: string): Statement[] {
  const { packetBytes, tables, namespace } = store
  const bytes = Buffer.byteLength(answer)
  if (bytes > packetBytes) {
    throw new SignalboxError(
      'too_large',
      `The answer to this request has ${bytes} bytes; MariaDB takes ${packetBytes} at once, so it cannot be kept with the Idempotency-Key "${key.key}" and nothing was done. Ask for fewer jobs, or raise max_allowed_packet.`,
      { details: { bytes, limit: packetBytes } },
    )
  }
  const pieces = cutPieces(answer, packetBytes - 4_096)
  return pieces.map((piece, nr) => [
    `UPDATE ${tables.requestKey} SET answer = ${nr === 0 ? '?' : 'CONCAT(answer, ?)'} WHERE ${thisKey}`,
    [piece, namespace, key.caller, key.key],
  ])
}

function leaveNone({ store, key }: KeyedCall): Statement {
  return [`DELETE FROM ${store.tables.requestKey} WHERE ${thisKey}`, [store.namespace, key.caller, key.key]]
}
