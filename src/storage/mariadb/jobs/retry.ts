import type { RetryAnswer } from '../../../jobs/index.ts'
import { keptForRetry } from '../../sql/log-row.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import type { Store } from '../engine-store.ts'
import { reach } from './cancel.ts'
import { reclaim, reclaimThese } from './reclaim.ts'

/**
 * Retrying jobs. A live job that does not run is due now; an ended one moves from the history back into the queue, where the unique
 * index decides whether its key is free. None waits for the row of a running job.
 */
export async function retry(store: Store, id: string): Promise<RetryAnswer | undefined> {
  const answer = await retryOnce(store, id)
  // The job that has the key may be dead by now, and then the key is free.
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
            ...deleteLongLogs(store, [id]),
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
 * Moves ended jobs back into the queue, in the transaction that is open, and commits it; answers those that took. A job
 * whose key is taken comes back under the id of the one that has it, and stays where it is.
 */
async function revive(store: Store, call: Call, ids: readonly string[]): Promise<string[]> {
  const { tables, namespace } = store
  const wanted = new Set(ids)
  // Locked first, in order: two calls that retry the same jobs meet here and not in the unique index.
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
      ...deleteLongLogs(store, took),
    )
  }
  await call.packet([...statements, commit])
  // Gone from the history since it was seen there: another call retried it, and it is in the queue.
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

/** The jobs are begun anew: attempts that leave little room for the next ones are forgotten. */
function deleteLongLogs(
  { tables, namespace }: Pick<Store, 'tables' | 'namespace'>,
  jobIds: readonly string[],
): readonly Statement[] {
  const { lineCount, lineBytes } = keptForRetry
  const isFull = `p.namespace = ? AND p.job_id IN (?) AND (p.line_count > ${lineCount} OR p.line_bytes > ${lineBytes})`
  const sameAttempt = 'l.namespace = p.namespace AND l.job_id = p.job_id AND l.attempt = p.attempt'
  return [
    [
      `DELETE l FROM ${tables.progress} p STRAIGHT_JOIN ${tables.log} l ON ${sameAttempt} WHERE ${isFull}`,
      [namespace, jobIds],
    ],
    [`DELETE p FROM ${tables.progress} p WHERE ${isFull}`, [namespace, jobIds]],
  ]
}
