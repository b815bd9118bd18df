import { setTimeout as sleep } from 'node:timers/promises'
import { createIds } from '../../../core/ids.ts'
import { begin, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { leave } from './history.ts'
import { rateMs } from './layout.ts'

/**
 * Deletes jobs with all their data: in the queue, with an expired lease, or in the history. Rows are locked with SKIP
 * LOCKED. A skipped row is being claimed, put back or ended, so the call looks for it again. A row that a user's open
 * transaction keeps locked is being ended there, and stays.
 */
const batch = 1_000
const maxLooks = 6

export async function remove(store: Store, ids: readonly string[]): Promise<readonly string[]> {
  const gone: string[] = []
  const distinct = [...new Set(ids)].sort()
  for (let from = 0; from < distinct.length; from += batch) {
    let left: readonly string[] = distinct.slice(from, from + batch)
    for (let looks = 1; left.length > 0 && looks <= maxLooks; looks++) {
      const { removed, skipped } = await removeFree(store, left)
      gone.push(...removed)
      left = skipped
      if (left.length > 0 && looks < maxLooks) await sleep(2 ** looks)
    }
  }
  return gone
}

/** Removes the jobs whose rows are not locked. Returns skipped jobs that do not run. */
async function removeFree(
  store: Store,
  ids: readonly string[],
): Promise<{ readonly removed: readonly string[]; readonly skipped: readonly string[] }> {
  const { calls, tables, namespace } = store
  const live = `SELECT id FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND NOT (state = 'running' AND lease_ends_at > ${nowMs})`
  const ended = `SELECT id FROM ${tables.history} FORCE INDEX (PRIMARY) WHERE namespace = ? AND id IN (?)`
  return calls.run('remove jobs', async (call) => {
    const answers = await call.packet([
      begin,
      ...[live, ended].map((sql): Statement => [`${sql} FOR UPDATE SKIP LOCKED`, [namespace, ids]]),
      // Read both tables at one moment: otherwise a job that a retry moves in between would be in neither.
      [`${live} UNION ALL ${ended}`, [namespace, ids, namespace, ids]],
    ])
    const found = answers.slice(1) as { id: string }[][]
    const [free, over, seen] = found.map((rows) => rows.map(({ id }) => id))
    const removed = [...new Set([...free!, ...over!])].sort()
    await call.packet([
      ...leave(store, free!),
      ...leaveHistory(store, over!),
      ...leaveRest(store, removed),
      commit,
    ])
    const skipped = new Set(seen)
    for (const id of removed) skipped.delete(id)
    return { removed, skipped: [...skipped] }
  })
}

function leaveHistory({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [
      `DELETE d FROM ${tables.dead} d JOIN ${tables.history} h ON h.namespace = d.namespace AND h.id = d.id
        AND h.queue = d.queue WHERE h.namespace = ? AND h.id IN (?) AND h.state = 'dead'`,
      [namespace, ids],
    ],
    [`DELETE FROM ${tables.history} WHERE namespace = ? AND id IN (?)`, [namespace, ids]],
    [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, ids]],
  ]
}

/** Deletes the jobs' logs, attempts and dependencies. */
function leaveRest({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [tables.progress, tables.log, tables.dependency, tables.jobLock, tables.block, tables.attempt].map(
    (table) => [`DELETE FROM ${table} WHERE namespace = ? AND job_id IN (?)`, [namespace, ids]],
  )
}

/**
 * The clocks of the database and of the process that created an id may differ slightly. A larger difference delays the
 * pruning of a job.
 */
const skewMs = 60_000

/**
 * Ids begin with their creation time, and no job ends before it was created. So jobs that ended before the cut-off are
 * at the front of the primary key, and completions need not maintain an index on `finished_at`.
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
        // Skip a job that was retried after it was looked up.
        [
          `DELETE a FROM ${tables.attempt} a LEFT JOIN ${tables.queue} q ON q.namespace = a.namespace AND q.id = a.job_id
            WHERE a.namespace = ? AND a.job_id IN (?) AND q.id IS NULL`,
          [namespace, ids],
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

/**
 * Deletes the starts of keys that were not used for long. Reads them first, because a delete would wait for keys in
 * use.
 */
function sweepRates({ tables, namespace }: Pick<Store, 'tables' | 'namespace'>): Statement {
  return [
    `DELETE r FROM (
        SELECT queue, limit_key FROM ${tables.rate} WHERE namespace = ? AND started_at < ${nowMs} - ${rateMs} LIMIT 1000) old
      STRAIGHT_JOIN ${tables.rate} r ON r.namespace = ? AND r.queue = old.queue AND r.limit_key = old.limit_key
      WHERE r.started_at < ${nowMs} - ${rateMs}`,
    [namespace, namespace],
  ]
}

/** Deletes cancellation requests of jobs that ended in callers' transactions. */
function sweepCancels({ tables, namespace }: Pick<Store, 'tables' | 'namespace'>): Statement {
  return [
    `DELETE c FROM ${tables.cancel} c LEFT JOIN ${tables.queue} q
      ON q.namespace = c.namespace AND q.id = c.job_id WHERE c.namespace = ? AND q.id IS NULL`,
    [namespace],
  ]
}
