import type { RetryAnswer } from '../../../jobs/index.ts'
import { keptForRetry } from '../../sql/log-row.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import type { Store } from '../engine-store.ts'
import { reach } from './cancel.ts'
import { reclaim, reclaimThese } from './reclaim.ts'

/**
 * Retries jobs. A live job that does not run becomes due now. An ended job moves from the history back to the queue,
 * where the unique index decides whether its key is free. A retry never waits for the row of a running job.
 */
export async function retry(store: Store, id: string): Promise<RetryAnswer | undefined> {
  const answer = await retryOnce(store, id)
  // The job with the key may be dead but not taken back yet; then the key is free.
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
 * Moves ended jobs back to the queue in the open transaction, and commits it. Returns the ids of the moved jobs. A job
 * whose key is taken stays in the history.
 */
async function revive(store: Store, call: Call, ids: readonly string[]): Promise<string[]> {
  const { tables, namespace } = store
  const wanted = new Set(ids)
  // Lock them first, in order, so that two calls that retry the same jobs meet here and not in the unique index.
  const there = await call.rows<{ id: string }>(
    `SELECT id FROM ${tables.history} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) ORDER BY id FOR UPDATE`,
    [namespace, ids],
  )
  const present = there.map(({ id }) => id)
  const revived: string[] = []
  // One by one: of two jobs with the same key the older one gets it.
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
      if (rowCount(answer) === 1) revived.push(id)
    } catch (error) {
      if (errnoOf(error) !== 1062) throw error
    }
  }
  const statements: Statement[] = []
  if (revived.length > 0) {
    statements.push(
      [`DELETE FROM ${tables.history} WHERE namespace = ? AND id IN (?)`, [namespace, revived]],
      [
        `DELETE d FROM ${tables.dead} d JOIN ${tables.queue} q ON q.namespace = d.namespace AND q.id = d.id
        WHERE q.namespace = ? AND q.id IN (?) AND d.queue = q.queue`,
        [namespace, revived],
      ],
      [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, revived]],
      ...deleteLongLogs(store, revived),
    )
  }
  await call.packet([...statements, commit])
  // A job that left the history meanwhile was retried by another call, and is in the queue.
  for (const id of wanted) if (!present.includes(id)) revived.push(id)
  return revived
}

const page = 500

export async function retryDead(
  store: Store,
  { queue, kind, limit }: { readonly queue?: string; readonly kind?: string; readonly limit: number },
): Promise<number> {
  const { calls, tables, namespace } = store
  // Expired jobs may be dead already, so take them back first.
  await reclaim(store, 1_000)
  let revivedCount = 0
  for (let after = ''; revivedCount < limit; ) {
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
            Math.min(page, limit - revivedCount),
          ],
        ],
      ])) as [unknown, { id: string }[]]
      const ids = rows.map(({ id }) => id)
      if (ids.length === 0) await call.packet([commit])
      return { last: ids.at(-1), count: ids.length === 0 ? 0 : (await revive(store, call, ids)).length }
    })
    if (last === undefined) break
    after = last
    revivedCount += count
  }
  return revivedCount
}

/** For jobs that a retry begins anew: deletes attempts whose logs leave too little capacity. */
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
