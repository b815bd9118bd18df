import { setTimeout as sleep } from 'node:timers/promises'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { leave } from './history.ts'

/**
 * Deleting jobs with all that is known of them, where they lie: in line, under a lease that ran out, or in history.
 * Rows are locked with SKIP LOCKED. One that was skipped is being claimed, put back or ended this moment, so it is looked
 * for again; one that somebody's open transaction keeps locked is being ended there, and stays.
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

/** Removes those that are free; answers which are not running and were skipped. */
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
      // Both at one moment: one that a retry brought from the history into the line in between was in neither.
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

/** What they said of themselves, and what they waited for. */
function leaveRest({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [tables.progress, tables.log, tables.dependency, tables.jobLock].map((table) => [
    `DELETE FROM ${table} WHERE namespace = ? AND job_id IN (?)`,
    [namespace, ids],
  ])
}
