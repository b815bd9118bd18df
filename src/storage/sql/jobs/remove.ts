import { createIds } from '../../../core/ids.ts'
import type { Dialect } from '../dialect.ts'
import type { Age } from '../operations.ts'
import { last, many, type Operation, operation, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { leaveQueue } from './cancel.ts'
import { leaveHistory } from './retry.ts'

/**
 * Deletes jobs with all their data, or jobs that ended long ago. Rows are locked with SKIP LOCKED. Another transaction
 * is claiming, returning or ending a skipped job. If a user's open transaction keeps the lock, that transaction ends the
 * job, and the job stays.
 */
const ofJobs = { namespace: 'text', ids: 'text[]' } as const

const selectIdle = (d: Dialect) => `
SELECT q.id ${d.byKeys({
  ...{ from: '@job_queue', alias: 'q', key: 'q.id', keys: ':ids' },
  where: `q.namespace = :namespace AND (q.state <> 'running' OR q.lease_ends_at <= ${d.now})`,
})}`
const selectEnded = (d: Dialect, condition = '') => `
SELECT h.id ${d.byKeys({
  ...{ from: '@job_history', alias: 'h', key: 'h.id', keys: ':ids' },
  where: `h.namespace = :namespace ${condition}`,
})}`

const lockIdle = statement('job_lock_to_remove', ofJobs, (d) => `${selectIdle(d)} ${d.skipLocked}`)
const lockEnded = statement('job_lock_ended_to_remove', ofJobs, (d) => `${selectEnded(d)} ${d.skipLocked}`)
/** Reads both tables at one moment: otherwise a job that a retry moves in between would be in neither. */
const seeJobs = statement('job_see_to_remove', ofJobs, (d) => `${selectIdle(d)}\nUNION ALL ${selectEnded(d)}`)

const deleteDetails = ['job_progress', 'job_log', 'job_dependency', 'job_lock', 'job_block'].map((table) =>
  statement(
    `${table}_remove`,
    ofJobs,
    () => `DELETE FROM @${table} WHERE namespace = :namespace AND job_id IN (:ids)`,
  ),
)

const deleteAttempts = statement('job_attempt_remove', { namespace: 'text', rows: { id: 'text' } }, (d) =>
  d.deleteByRows('@job_attempt', 't.namespace = :namespace AND t.job_id = v.id'),
)

/** Deletes the attempts of jobs that are removed. */
function forgetAttempts(namespace: string, ids: readonly string[]): Bound {
  return deleteAttempts({ namespace, rows: ids.map((id) => ({ id })) })
}

export interface Removal {
  readonly removed: readonly string[]
  /** Jobs that do not run, but whose rows another transaction has locked. */
  readonly skipped: readonly string[]
}

/** Removes jobs, except running ones. */
export const removeJobs: Operation<readonly [namespace: string, ids: readonly string[]], Removal> = operation(
  {
    name: 'remove jobs',
    *procedure(namespace: string, wanted: readonly string[]) {
      const [idle, ended, seen] = (yield* run(
        lockIdle({ namespace, ids: wanted }),
        lockEnded({ namespace, ids: wanted }),
        seeJobs({ namespace, ids: wanted }),
      )).map(({ rows }) => (rows as readonly { id: string }[]).map(({ id }) => id))
      const ids = [...new Set([...idle!, ...ended!])].sort()
      const gone: Bound[] = []
      if (idle!.length > 0) gone.push(...leaveQueue(namespace, idle!))
      if (ended!.length > 0) gone.push(leaveHistory(namespace, ended!))
      if (ids.length > 0) {
        gone.push(
          ...deleteDetails.map((remove) => remove({ namespace, ids })),
          forgetAttempts(namespace, ids),
        )
      }
      yield* last(run(...gone))
      const removed = new Set(ids)
      return { removed: ids, skipped: [...new Set(seen)].filter((id) => !removed.has(id)) }
    },
  },
)

/** The clocks of the hosts that create ids may be ahead of the store's by this much. */
const clockSlackMs = 3_600_000

const selectClock = statement('job_prune_clock', {}, (d) => `SELECT ${d.now} AS now`)

const selectOld = statement(
  'job_list_old',
  { namespace: 'text', bound: 'text', endedBefore: 'integer', limit: 'integer' },
  () => `
SELECT id FROM @job_history WHERE namespace = :namespace AND id < :bound AND finished_at < :endedBefore
ORDER BY id LIMIT :limit`,
)

/** A job that was retried meanwhile is left out. */
const lockOld = statement(
  'job_lock_old',
  { ...ofJobs, endedBefore: 'integer' },
  (d) => `${selectEnded(d, 'AND h.finished_at < :endedBefore')} ${d.skipLocked}`,
)

const forgetStray = statement(
  'job_forget_stray_requests',
  { namespace: 'text' },
  (d) => `
DELETE FROM @job_cancel WHERE namespace = :namespace AND (
  SELECT 1 FROM @job_queue q ${d.byIndex('PRIMARY')} WHERE q.namespace = :namespace AND q.id = job_id LIMIT 1) IS NULL`,
)

const pruneStarts = statement('job_prune_starts', { namespace: 'text' }, (d) => d.jobs.limits.pruneStarts)

/**
 * Deletes up to `limit` jobs that ended long ago, and returns their number. Ids begin with their creation time, and no
 * job ends before it was created: so such jobs have the least ids, and no index on the end is needed.
 */
export const pruneHistory: Operation<readonly [namespace: string, age: Age], number> = operation({
  name: 'prune history',
  *procedure(namespace: string, { olderThanMs, limit }: Age) {
    const [clock] = yield* many<{ now: number | string }>(selectClock({}))
    const endedBefore = Number(clock!.now) - olderThanMs
    if (endedBefore < 0) return 0
    const bound = createIds({ now: () => endedBefore + clockSlackMs })().slice(0, 10)
    const old = yield* many<{ id: string }>(selectOld({ namespace, bound, endedBefore, limit }))
    if (old.length < limit) yield* run(forgetStray({ namespace }), pruneStarts({ namespace }))
    const found = old.map(({ id }) => id)
    if (found.length === 0) return 0
    const ids = (yield* many<{ id: string }>(lockOld({ namespace, ids: found, endedBefore }))).map(
      ({ id }) => id,
    )
    if (ids.length > 0) yield* last(run(leaveHistory(namespace, ids), forgetAttempts(namespace, ids)))
    return ids.length
  },
})
