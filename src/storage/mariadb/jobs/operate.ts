import { createIds } from '../../../core/ids.ts'
import type { CancelAnswer, JobState, RetryAnswer } from '../../../jobs/index.ts'
import { reclaim, reclaimThese } from '../claim/reclaim.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import type { Store } from '../engine-store.ts'
import { toCancelled } from './history.ts'
import { makeRoomForNotes } from './make-room-for-logs.ts'

/**
 * What operators do with jobs: cancel, retry, prune. None waits for a running job's row, which a user's
 * transaction may hold for long: what is asked of a running job is written beside it, in `job_cancel`.
 */
interface StoredRow {
  readonly state: JobState
  readonly lease_no: number
  readonly lapsed: number
}

const stored = `CAST(state AS CHAR) AS state, lease_no, state = 'running' AND lease_ends_at <= ${nowMs} AS lapsed`

/** Finds the job's row in the line and locks it, or sees that it is locked, or where it is instead. */
async function reach(
  { tables, namespace }: Store,
  call: Call,
  id: string,
): Promise<{ locked?: StoredRow; seen?: StoredRow; ended?: JobState }> {
  const [, [locked], [seen]] = (await call.packet([
    begin,
    [
      `SELECT ${stored} FROM ${tables.queue} WHERE namespace = ? AND id = ? FOR UPDATE SKIP LOCKED`,
      [namespace, id],
    ],
    // Both places in one statement, and so at one moment: a job that somebody else retries meanwhile is in one of them.
    [
      `SELECT ${stored}, 0 AS ended FROM ${tables.queue} WHERE namespace = ? AND id = ?
        UNION ALL
        SELECT CAST(state AS CHAR), 0, 0, 1 FROM ${tables.history} WHERE namespace = ? AND id = ?`,
      [namespace, id, namespace, id],
    ],
  ])) as [unknown, StoredRow[], (StoredRow & { readonly ended: number })[]]
  if (locked) return { locked }
  if (seen?.ended) return { ended: seen.state }
  return seen ? { seen } : {}
}

export async function cancel(store: Store, id: string): Promise<CancelAnswer | undefined> {
  const { calls } = store
  const answer = await calls.until('cancel a job', (deadline) =>
    calls.run(
      'cancel a job',
      async (call): Promise<CancelAnswer | 'none' | undefined> => {
        const { locked, seen, ended } = await reach(store, call, id)
        if (locked && locked.state !== 'running') {
          await call.packet([...toCancelled(store, [id]), commit])
          return { state: 'cancelled', cancelRequested: false }
        }
        const running = locked ?? seen
        // Locked and not running: it is being claimed or put back this moment, or was judged by a lapsed lease.
        if (ended === undefined && running?.state === 'running' && !running.lapsed) {
          await call.packet([request(store, id, running.lease_no), commit])
          return { state: 'running', cancelRequested: true }
        }
        await call.packet([commit])
        if (ended !== undefined) return { state: ended, cancelRequested: false }
        if (running === undefined) return 'none'
        if (locked?.lapsed) await reclaimThese(store, [id])
        return undefined
      },
      deadline,
    ),
  )
  return answer === 'none' ? undefined : answer
}

function request({ tables, namespace }: Store, id: string, leaseNo: number): Statement {
  return [
    `INSERT INTO ${tables.cancel} (namespace, job_id, lease_no) VALUES (?, ?, ?)
      ON DUPLICATE KEY UPDATE lease_no = VALUES(lease_no)`,
    [namespace, id, leaseNo],
  ]
}

export async function retry(store: Store, id: string): Promise<RetryAnswer | undefined> {
  const answer = await retryOnce(store, id)
  // Whoever has the key may be dead by now, and then it is free.
  if (answer?.outcome !== 'taken' || (await reclaim(store, 1_000)).dead === 0) return answer
  return retryOnce(store, id)
}

async function retryOnce(store: Store, id: string): Promise<RetryAnswer | undefined> {
  const { calls, tables, namespace } = store
  const answer = await calls.until('retry a job', (deadline) =>
    calls.run(
      'retry a job',
      async (call): Promise<RetryAnswer | 'none' | undefined> => {
        const { locked, seen, ended } = await reach(store, call, id)
        if (locked && locked.state !== 'running') {
          await call.packet([
            [
              `UPDATE ${tables.queue}
                SET state = 'ready', attempt = 0, hand_back_count = 0, snooze_count = 0, run_at = ${nowMs},
                  started_at = NULL, worker_id = NULL, updated_at = ${nowMs}
                WHERE namespace = ? AND id = ?`,
              [namespace, id],
            ],
            [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id = ?`, [namespace, id]],
            ...makeRoomForNotes(store, [id]),
            commit,
          ])
          return { outcome: 'ready' }
        }
        if (ended !== undefined) {
          const [revived] = await revive(store, call, [id])
          return revived === id ? { outcome: 'ready' } : { outcome: 'taken' }
        }
        await call.packet([commit])
        const running = locked ?? seen
        if (running === undefined) return 'none'
        if (running.state === 'running' && !running.lapsed) return { outcome: 'running' }
        if (locked?.lapsed) await reclaimThese(store, [id])
        return undefined
      },
      deadline,
    ),
  )
  return answer === 'none' ? undefined : answer
}

/**
 * Moves ended jobs back into the line, in the transaction that is open, and commits it; answers those that took. A job
 * whose key is taken comes back under the id of the one that has it, and stays where it is.
 */
async function revive(store: Store, call: Call, ids: readonly string[]): Promise<string[]> {
  const { tables, namespace } = store
  const wanted = new Set(ids)
  // Locked first, in order: two who retry the same jobs meet here and not in the unique index.
  const there = await call.rows<{ id: string }>(
    `SELECT id FROM ${tables.history} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) ORDER BY id FOR UPDATE`,
    [namespace, ids],
  )
  const present = there.map(({ id }) => id)
  const took: string[] = []
  // One by one: of two with the same key the older one takes it.
  for (const id of present) {
    try {
      const answer = await call.rows(
        `INSERT INTO ${tables.queue} (namespace, id, queue, kind, payload, priority, unique_key, state, attempt,
            max_attempts, hand_back_count, snooze_count, run_at, created_at, updated_at, lease_no, settled_tokens, backoff,
            timeout_ms, meta, error)
          SELECT namespace, id, queue, kind, payload, priority, unique_key, 'ready', 0, max_attempts, 0, 0, ${nowMs},
            created_at, ${nowMs}, lease_no, IF(lease_nonce IS NULL, settled_tokens, CONCAT_WS(' ', settled_tokens, CONCAT(lease_no, '.', lease_nonce))), backoff, timeout_ms, meta, error
          FROM ${tables.history} WHERE namespace = ? AND id = ?`,
        [namespace, id],
      )
      if (rowCount(answer) === 1) took.push(id)
    } catch (error) {
      if (errnoOf(error) !== 1062) throw error
    }
  }
  const statements: Statement[] = []
  if (took.length > 0) {
    statements.push(
      [`DELETE FROM ${tables.history} WHERE namespace = ? AND id IN (?)`, [namespace, took]],
      [
        `DELETE d FROM ${tables.dead} d JOIN ${tables.queue} q ON q.namespace = d.namespace AND q.id = d.id
        WHERE q.namespace = ? AND q.id IN (?) AND d.queue = q.queue`,
        [namespace, took],
      ],
      [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, took]],
      ...makeRoomForNotes(store, took),
    )
  }
  await call.packet([...statements, commit])
  // Gone from the history since it was seen there: somebody else retried it, and it is in line.
  for (const id of wanted) if (!present.includes(id)) took.push(id)
  return took
}

const page = 500

export async function retryDead(
  store: Store,
  { queue, kind, limit }: { readonly queue?: string; readonly kind?: string; readonly limit: number },
): Promise<number> {
  const { calls, tables, namespace } = store
  // What is dead by now is dead, whether or not it was taken back.
  await reclaim(store, 1_000)
  let took = 0
  for (let after = ''; took < limit; ) {
    const { last, count } = await calls.run('retry dead jobs', async (call) => {
      const [, rows] = (await call.packet([
        begin,
        [
          `SELECT id FROM ${tables.dead} WHERE namespace = ? AND id > ?
            ${queue === undefined ? '' : 'AND queue = ?'} ${kind === undefined ? '' : 'AND kind = ?'}
            ORDER BY id LIMIT ?`,
          [
            namespace,
            after,
            ...[queue, kind].filter((value) => value !== undefined),
            Math.min(page, limit - took),
          ],
        ],
      ])) as [unknown, { id: string }[]]
      const ids = rows.map(({ id }) => id)
      if (ids.length === 0) await call.packet([commit])
      return { last: ids.at(-1), count: ids.length === 0 ? 0 : (await revive(store, call, ids)).length }
    })
    if (last === undefined) break
    after = last
    took += count
  }
  return took
}

/** Clocks may differ a little between who made an id and the database; beyond that a job is pruned that much later. */
const skewMs = 60_000

/**
 * Ids begin with the time they were made, and no job ends before it was made: what ended before the cut-off lies in
 * the front of the primary key, and no index on `finished_at` is paid for by every completion.
 */
export async function prune(
  { calls, tables, namespace }: Store,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<number> {
  if (limit < 1) return 0
  let pruned = 0
  let after = ''
  while (pruned < limit) {
    const { count, last } = await calls.run('prune history', async (call) => {
      const [clock] = await call.rows<{ now: number }>(`SELECT ${nowMs} AS now`, [])
      const cutoff = Number(clock!.now) - olderThanMs
      if (cutoff < 0) return { count: 0, last: undefined }
      const bound = createIds({ now: () => cutoff + skewMs })().slice(0, 10)
      const rows = await call.rows<{ id: string }>(
        `SELECT id FROM ${tables.history} WHERE namespace = ? AND id > ? AND id < ? AND finished_at < ?
          ORDER BY id LIMIT ?`,
        [namespace, after, bound, cutoff, Math.min(1_000, limit - pruned)],
      )
      const ids = rows.map(({ id }) => id)
      if (ids.length === 0) {
        await call.packet([sweepCancels({ tables, namespace }), sweepRates({ tables, namespace })])
        return { count: 0, last: undefined }
      }
      const answers = await call.packet([
        begin,
        [
          `DELETE d FROM ${tables.dead} d JOIN ${tables.history} h ON h.namespace = d.namespace AND h.id = d.id
            AND h.queue = d.queue WHERE h.namespace = ? AND h.id IN (?) AND h.state = 'dead'`,
          [namespace, ids],
        ],
        [
          `DELETE FROM ${tables.history} WHERE namespace = ? AND id IN (?) AND finished_at < ?`,
          [namespace, ids, cutoff],
        ],
        commit,
      ])
      return { count: rowCount(answers[2]), last: ids.at(-1) }
    })
    if (last === undefined) break
    after = last
    pruned += count
  }
  return pruned
}

/** What no rate counts any more: the longest is over a day. */
const rateMs = 2 * 86_400_000

/** The starts of keys that nobody has used for long. Read first, for a delete would wait for those that are in use. */
function sweepRates({ tables, namespace }: Pick<Store, 'tables' | 'namespace'>): Statement {
  return [
    `DELETE r FROM (
        SELECT queue, limit_key FROM ${tables.rate} WHERE namespace = ? AND started_at < ${nowMs} - ${rateMs} LIMIT 1000) old
      STRAIGHT_JOIN ${tables.rate} r ON r.namespace = ? AND r.queue = old.queue AND r.limit_key = old.limit_key
      WHERE r.started_at < ${nowMs} - ${rateMs}`,
    [namespace, namespace],
  ]
}

/** What was asked of jobs that have ended in callers' transactions. */
function sweepCancels({ tables, namespace }: Pick<Store, 'tables' | 'namespace'>): Statement {
  return [
    `DELETE c FROM ${tables.cancel} c LEFT JOIN ${tables.queue} q
      ON q.namespace = c.namespace AND q.id = c.job_id WHERE c.namespace = ? AND q.id IS NULL`,
    [namespace],
  ]
}
