import type { RetryAnswer } from '../../../jobs/index.ts'
import { deleteLongLogs, findLongLogs } from '../logs.ts'
import { last, many, type Operation, one, operation, type Procedure, type Result, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { forgetRequests, reachJob, readReached } from './cancel.ts'

/**
 * Retries jobs. A live job that does not run becomes due now. An ended job moves from the history back to the queue,
 * where the unique index decides whether its key is free. A retry never waits for the row of a running job.
 */
const ofJob = { namespace: 'text', id: 'text' } as const
const ofJobs = { namespace: 'text', ids: 'text[]' } as const

const makeDue = statement(
  'job_make_due',
  ofJob,
  (d) => `
UPDATE @job_queue SET state = 'ready', attempt = 0, hand_back_count = 0, snooze_count = 0, run_at = ${d.now},
  started_at = NULL, worker_id = NULL, updated_at = ${d.now}
WHERE namespace = :namespace AND id = :id`,
)

/** In the order of ids, so that two calls that retry the same jobs meet here and not in the unique index. */
const lockEnded = statement(
  'job_lock_ended',
  ofJobs,
  (d) => `
SELECT h.id ${d.byKeys({
    ...{ from: '@job_history', alias: 'h', key: 'h.id', keys: ':ids' },
    where: 'h.namespace = :namespace',
  })} ORDER BY h.id ${d.forUpdate}`,
)

const kept = 'namespace, id, queue, kind, payload, priority, unique_key, max_attempts, created_at, lease_no'
const keptOptions = 'backoff, timeout_ms, meta, error'
const of = (names: string) =>
  names
    .split(', ')
    .map((name) => `h.${name}`)
    .join(', ')

/** Copies the number of the last lease, so that the next token is greater than all earlier ones. */
const moveBack = statement(
  'job_move_back',
  { namespace: 'text', rows: { id: 'text' } },
  ({ now, jobs: { limitKey, settledTokens }, ...d }) => {
    const more =
      limitKey === undefined ? { column: '', value: '' } : { column: ', limit_key', value: `, ${limitKey}` }
    return `
INSERT INTO @job_queue (${kept}, ${keptOptions}, state, attempt, hand_back_count, snooze_count, run_at, updated_at,
  settled_tokens${more.column})
SELECT ${of(kept)}, ${of(keptOptions)}, 'ready', 0, 0, 0, ${now}, ${now}, ${settledTokens}${more.value}
FROM :rows ${d.thenJoin('@job_history', 'h', 'h.namespace = :namespace AND h.id = v.id')} WHERE 1 = 1
${d.keepAny} RETURNING id`
  },
)

const removeEnded = statement('job_leave_history', ofJobs, (d) => d.jobs.removeEnded)

/** Deletes jobs from the history. The caller has locked their rows. */
export function leaveHistory(namespace: string, ids: readonly string[]): Bound {
  return removeEnded({ namespace, ids })
}

/**
 * The statements that move those of these jobs back to the queue that have ended and whose key is free; of two with the
 * same key, the one with the lesser id.
 */
function moveJobs(namespace: string, ids: readonly string[]): readonly Bound[] {
  const rows = ids.map((id) => ({ id }))
  return [lockEnded({ namespace, ids }), moveBack({ namespace, rows }), findLongLogs(namespace, ids)]
}

/** The jobs that `moveJobs` found in the history, those that it moved, and the statements that delete their rest. */
function readMoved(namespace: string, [locked, moved, long]: readonly Result[]) {
  const ended = new Set(idsOf(locked!))
  // On MariaDB the answer also has the jobs that hold the keys of others.
  const revived = [...new Set(idsOf(moved!))].filter((id) => ended.has(id))
  const leaving =
    revived.length === 0
      ? []
      : [
          leaveHistory(namespace, revived),
          forgetRequests(namespace, revived),
          ...deleteLongLogs(namespace, long!),
        ]
  return { ended, revived, leaving }
}

function idsOf({ rows }: Result): readonly string[] {
  return (rows as readonly { readonly id: string }[]).map(({ id }) => id)
}

const selectLapsedHolder = statement(
  'job_lapsed_holder',
  ofJob,
  (d) => `
SELECT q.id FROM (SELECT h.queue, h.unique_key FROM @job_history h WHERE h.namespace = :namespace AND h.id = :id) ended
${d.thenJoin('@job_queue', 'q', 'q.namespace = :namespace AND q.queue = ended.queue AND q.unique_key = ended.unique_key')}
WHERE q.state = 'running' AND q.lease_ends_at <= ${d.now}`,
)

/**
 * `busy`: nothing was written, because this job or the one with its key has an expired lease, or another transaction is
 * moving it. Null: there is no such job.
 */
export type RetryStep = RetryAnswer | { readonly busy: string } | null

export const retryJob: Operation<readonly [namespace: string, id: string], RetryStep> = operation({
  name: 'retry a job',
  *procedure(namespace: string, id: string): Procedure<RetryStep> {
    const found = yield* run(...reachJob(namespace, id), ...moveJobs(namespace, [id]))
    const { ended, revived, leaving } = readMoved(namespace, found.slice(2))
    if (revived.length > 0) {
      yield* last(run(...leaving))
      return { outcome: 'ready' }
    }
    const job = readReached(found)
    if (job === undefined) return null
    if (job.isEnded) {
      if (ended.size === 0) return { busy: id }
      const holder = yield* one<{ id: string }>(selectLapsedHolder({ namespace, id }))
      return holder === undefined ? { outcome: 'taken' } : { busy: holder.id }
    }
    if (job.state === 'running' && !job.isLapsed) return { outcome: 'running' }
    if (job.state === 'running' || !job.isLocked) return { busy: id }
    const logs = deleteLongLogs(namespace, found.at(-1)!)
    yield* last(run(makeDue({ namespace, id }), forgetRequests(namespace, [id]), ...logs))
    return { outcome: 'ready' }
  },
})

export interface DeadJobs {
  readonly queue?: string
  readonly kind?: string
  readonly limit: number
}

const selectDead = statement(
  'job_list_dead_ids',
  { namespace: 'text', after: 'text', 'queue?': 'text', 'kind?': 'text', limit: 'integer' },
  (d) => `
SELECT h.id FROM ${d.jobs.dead} AND h.id > :after {AND h.queue = :queue} {AND h.kind = :kind}
ORDER BY h.id LIMIT :limit`,
)

export interface RetriedPage {
  readonly count: number
  /** The id after which the next page begins. Null: this page was empty. */
  readonly last: string | null
}

/** Retries the dead jobs of a page, after the id `after`. */
export const retryDeadJobs: Operation<
  readonly [namespace: string, after: string, which: DeadJobs],
  RetriedPage
> = operation({
  name: 'retry dead jobs',
  *procedure(namespace: string, after: string, { queue, kind, limit }: DeadJobs) {
    const dead = yield* many<{ id: string }>(selectDead({ namespace, after, queue, kind, limit }))
    const ids = dead.map(({ id }) => id)
    if (ids.length === 0) return { count: 0, last: null }
    const { revived, leaving } = readMoved(namespace, yield* run(...moveJobs(namespace, ids)))
    yield* last(run(...leaving))
    return { count: revived.length, last: ids.at(-1)! }
  },
})
