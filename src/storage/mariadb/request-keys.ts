import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { JobStore } from '../../jobs/index.ts'
import type { RequestKey } from '../backend.ts'
import {
  createKeyedJobs,
  decodeAnswer,
  encodeAnswer,
  keyInProgress,
  keyMismatch,
  leavesKey,
} from '../request-key.ts'
import { begin, type Call, type Calls, commit, rowCount, type Statement } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import { errnoOf, isLost } from './connection/failures.ts'
import { cutPieces } from './connection/pieces.ts'
import { PinnedCalls } from './connection/pinned.ts'
import type { Store } from './engine-store.ts'
import { createMariadbJobs } from './jobs/jobs.ts'

/**
 * Requests that must not be done twice: one transaction holds the key, its effect and its answer.
 *
 *     START, the key without an answer, look ──▶ the call itself ──▶ its answer, COMMIT
 *
 * The key's row is the lock: whoever comes meanwhile is refused it at once, for no lock wait is allowed there, and sees
 * no answer, so it has met a call that is under way. Nobody else ever sees a row without an answer.
 *
 * A commit whose answer was lost can be asked for again, unlike any other: the key is there, or nothing is.
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

interface KeptRow {
  readonly fingerprint: string
  readonly answer: string | null
  readonly live: number
}

/** How long to ask again for a commit whose answer was lost. */
const lostCommitMs = 10_000

async function once(keyed: KeyedCall): Promise<unknown> {
  const { calls, memory } = keyed.store
  const until = performance.now() + lostCommitMs
  let wasLost = false
  for (let pauseMs = 20; ; pauseMs *= 2) {
    const outcome: Outcome = { tries: 0, hasWorked: false, isCommitting: false }
    try {
      return await calls.run('do a request with a key', (call) => perform(call, keyed, outcome))
    } catch (error) {
      // A claim may have remembered a place behind jobs that are back in line now.
      if (outcome.hasWorked) memory.positions.forget()
      const isGone = isUnanswered(error)
      wasLost ||= isGone && outcome.isCommitting
      // The server may take a moment to notice that the connection is gone, and keeps the row locked until then.
      const isAgain = wasLost && (isGone || isSignalboxError(error, 'in_progress'))
      if (!isAgain || performance.now() + pauseMs > until) throw error
    }
    await sleep(pauseMs)
  }
}

/** How far it came. */
interface Outcome {
  tries: number
  hasWorked: boolean
  isCommitting: boolean
}

/** Whether the connection was lost, or nothing was heard from it in time. */
function isUnanswered(error: unknown): boolean {
  if (!isSignalboxError(error, 'store_unavailable')) return false
  return error.cause === undefined || isLost(error.cause)
}

/** One try; whatever it throws, the transaction is rolled back behind it. */
async function perform(call: Call, keyed: KeyedCall, outcome: Outcome): Promise<unknown> {
  const { store, method, args } = keyed
  outcome.tries++
  outcome.isCommitting = false
  const kept = await take(call, keyed, outcome.tries)
  if (kept !== undefined) {
    await call.packet([['ROLLBACK', []]])
    return decodeAnswer(kept)
  }
  outcome.hasWorked = true
  const calls = new PinnedCalls(call)
  const jobs = createMariadbJobs({ ...store, calls })
  try {
    const answer = await Reflect.apply(jobs[method] as () => Promise<unknown>, jobs, args)
    const ending = leavesKey(method, answer) ? keepAnswer(keyed, encodeAnswer(answer)) : [leaveNone(keyed)]
    for (const statement of ending.slice(0, -1)) await call.packet([statement])
    outcome.isCommitting = true
    await call.packet([ending.at(-1)!, commit])
    calls.committed()
    return answer
  } catch (error) {
    store.memory.positions.forget()
    throw error
  }
}

/** Begins, with the key's row; answers what is kept with it already. */
async function take(call: Call, { store, key }: KeyedCall, tries: number): Promise<string | undefined> {
  const { caller, key: name, fingerprint, keepMs } = key
  const table = store.tables.requestKey
  const select: Statement = [
    `SELECT fingerprint, answer, expires_at > ${nowMs} AS live FROM ${table} WHERE ${thisKey}`,
    [store.namespace, caller, name],
  ]
  let row: KeptRow | undefined
  try {
    const [, , rows] = (await call.packet([
      begin,
      [
        // One whose time is over is written over; its `expires_at` last, since the others ask for it.
        `SET STATEMENT innodb_lock_wait_timeout = 0 FOR
          INSERT INTO ${table} (namespace, caller, \`key\`, fingerprint, answer, created_at, expires_at)
          VALUES (?, ?, ?, ?, NULL, ${nowMs}, ${nowMs} + ?)
          ON DUPLICATE KEY UPDATE fingerprint = IF(expires_at > ${nowMs}, fingerprint, VALUES(fingerprint)),
            answer = IF(expires_at > ${nowMs}, answer, NULL),
            created_at = IF(expires_at > ${nowMs}, created_at, VALUES(created_at)),
            expires_at = IF(expires_at > ${nowMs}, expires_at, VALUES(expires_at))`,
        [store.namespace, caller, name, fingerprint, keepMs],
      ],
      select,
    ])) as [unknown, unknown, KeptRow[]]
    row = rows[0]
    if (row?.answer === null) return undefined
  } catch (error) {
    if (errnoOf(error) !== 1205) throw error
    const [, [seen]] = (await call.packet([begin, select])) as [unknown, KeptRow[]]
    // Somebody may just be clearing it away; that takes no time, and it is tried again.
    if (seen && !seen.live && tries < 4) throw error
    if (!seen?.live) throw keyInProgress(name)
    row = seen
  }
  if (row === undefined || row.answer === null) throw keyInProgress(name)
  if (row.fingerprint !== fingerprint) throw keyMismatch(name)
  return row.answer
}

const thisKey = 'namespace = ? AND caller = ? AND `key` = ?'

/** Writes the answer, in as many pieces as packets take; the server joins them. */
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

/** Forgets up to `limit` keys whose time is over, of any namespace; those that somebody has locked are left. */
export async function pruneKeys(calls: Calls, table: string, limit: number): Promise<number> {
  let pruned = 0
  while (pruned < limit) {
    const most = Math.min(1_000, limit - pruned)
    const count = await calls.run('forget request keys', async (call) => {
      const [, rows] = (await call.packet([
        begin,
        [
          `SELECT namespace, caller, \`key\` AS name FROM ${table} FORCE INDEX (request_key_expires)
            WHERE expires_at <= ${nowMs} ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED`,
          [most],
        ],
      ])) as [unknown, { namespace: string; caller: string; name: string }[]]
      if (rows.length === 0) {
        await call.packet([commit])
        return 0
      }
      const [gone] = await call.packet([
        [
          `DELETE k FROM (WITH v (namespace, caller, name) AS (VALUES ?) SELECT * FROM v) old
            STRAIGHT_JOIN ${table} k
            ON k.namespace = old.namespace AND k.caller = old.caller AND k.\`key\` = old.name`,
          [rows.map(({ namespace, caller, name }) => [namespace, caller, name])],
        ],
        commit,
      ])
      return rowCount(gone)
    })
    pruned += count
    if (count < most) break
  }
  return pruned
}
