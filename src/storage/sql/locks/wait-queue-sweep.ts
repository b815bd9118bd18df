import type { LockKey } from '../../../locks/index.ts'
import { expire, groupOf, type LockTimes, sweep } from '../../../locks/rules/index.ts'
import { changesOf, type RunRule, type SweptWaitQueue } from '../../ruled-locks.ts'
import type { Database } from '../database.ts'
import { readAll } from '../operations.ts'
import { count, last, many, operation, run, undo } from '../procedure.ts'
import { serverStatement } from '../statement.ts'
import { runRule } from './run-rule.ts'
import { nameWaitQueue, storedWaiter } from './wait-queue-record.ts'
import { commitQueues, selectAt, tryLock, tryOpenQueue } from './wait-queue-rows.ts'

/** The wait queues of a namespace, and the function that runs a rule on a wait queue and waits for its lock. */
export interface SweepParts {
  readonly database: Database
  readonly namespace: string
  readonly run: RunRule
}

/** The number of wait queues that one sweep handles at once, each in its own transaction. */
const sweptTogether = 4
/** The maximum number of waits that one sweep ends. */
const maxWaiters = 1_000
/** The number of rows that one transaction deletes. It keeps each deleted wait queue locked until it ends. */
const maxDeleted = 200
/** The next sweep does the rest. */
const maxBatches = 10

/**
 * Ends the leases and waits that are due, and deletes expired rows. Any number of processes may sweep at once. A sweep
 * skips a wait queue that another process holds now, because that process also ends what is due. It checks each wait
 * queue again after it locked it. If a part of the sweep fails, the changes of the other parts are still returned: the
 * next sweep reports the error if it happens again.
 */
export async function sweepNamespace(
  parts: SweepParts,
  limit: number,
  times: LockTimes,
): Promise<readonly SweptWaitQueue[]> {
  const { database, namespace } = parts
  const { due, expired } = await database.run(findDue, [namespace, limit, times.keepMs])
  const swept: SweptWaitQueue[] = []
  const rest = [...due]
  let failure: { readonly error: unknown } | undefined
  const take = async () => {
    for (let queue = rest.shift(); queue !== undefined && !failure; queue = rest.shift())
      swept.push(...(await sweepOne(parts, queue, times)))
  }
  const attempt = (work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      failure ??= { error }
    })
  await Promise.all(Array.from({ length: sweptTogether }, () => attempt(take)))
  if (!failure) await attempt(() => forget(database, namespace, expired, times.keepMs))
  if (failure && swept.length === 0) throw failure.error
  return swept
}

/** A wait queue that is due itself, or that has due waiters. */
interface DueWaitQueue extends LockKey {
  /** The positions of the due waiters. */
  readonly seqs: readonly number[]
}

/** Whether there is anything to delete. */
interface Expired {
  readonly outcomes: boolean
  readonly results: boolean
  readonly queues: boolean
}

const selectDueQueues = serverStatement(
  'lock_queue_due',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT operation, resource FROM @lock_queue ${d.byIndex('lock_queue_due')}
WHERE namespace = :namespace AND due_at <= ${d.now} ORDER BY due_at LIMIT :limit`,
)

const selectDueWaiters = serverStatement(
  'lock_waiter_due',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT l.operation, l.resource, w.seq
FROM @lock_waiter w ${d.byIndex('lock_waiter_due')} ${d.thenJoin('@lock_queue', 'l', 'l.queue_key = w.queue_key')}
WHERE w.namespace = :namespace AND w.due_at <= ${d.now} ORDER BY w.due_at LIMIT :limit`,
)

const selectOver = serverStatement('lock_queue_over', { namespace: 'text', keepMs: 'integer' }, (d) => {
  const kept = (table: string) =>
    `EXISTS (SELECT 1 FROM @${table} ${d.byIndex(`${table}_kept`)} WHERE namespace = :namespace AND kept_until <= ${d.now})`
  return `
SELECT ${kept('lock_outcome')} AS has_outcomes, ${kept('lock_result')} AS has_results,
  EXISTS (SELECT 1 FROM @lock_queue ${d.byIndex('lock_queue_idle')}
    WHERE namespace = :namespace AND idle_since <= ${d.now} - :keepMs AND grant_from <= ${d.now}) AS has_queues`
})

const findDue = operation({
  name: 'look for locks that are due',
  isRead: true,
  *procedure(namespace: string, limit: number, keepMs: number) {
    const [queues, waiters, found] = yield* run(
      selectDueQueues({ namespace, limit }),
      selectDueWaiters({ namespace, limit: maxWaiters }),
      selectOver({ namespace, keepMs }),
    )
    const due = gather(queues!.rows as readonly LockKey[], waiters!.rows as readonly DueWaiter[])
    const { has_outcomes, has_results, has_queues } = found!.rows[0] as Record<string, unknown>
    return {
      due: due.slice(0, limit),
      expired: {
        outcomes: Boolean(has_outcomes),
        results: Boolean(has_results),
        queues: Boolean(has_queues),
      } satisfies Expired,
    }
  },
})

interface DueWaiter extends LockKey {
  readonly seq: number | string
}

/** Lists each wait queue once, with the positions of its due waiters. */
function gather(queues: readonly LockKey[], waiters: readonly DueWaiter[]): readonly DueWaitQueue[] {
  const due = new Map<string, LockKey & { readonly seqs: number[] }>()
  const at = ({ operation: name, resource }: LockKey) => {
    const key = JSON.stringify([name, resource])
    const known = due.get(key) ?? { operation: name, resource, seqs: [] }
    due.set(key, known)
    return known
  }
  for (const queue of queues) at(queue)
  for (const waiter of waiters) at(waiter).seqs.push(Number(waiter.seq))
  return [...due.values()]
}

async function sweepOne(
  { database, namespace, run: take }: SweepParts,
  due: DueWaitQueue,
  times: LockTimes,
): Promise<readonly SweptWaitQueue[]> {
  const group = groupOf(times.conflicts, due.operation)
  if (!group) return database.run(sweepQueue, [namespace, due, times])
  // The operation excludes others: run each step like any other step, on all wait queues of the group. The rules check
  // again.
  const { queueKey } = nameWaitQueue(namespace, due)
  const waiters = due.seqs.length === 0 ? [] : await database.run(findAt, [queueKey, due.seqs])
  const steps = [
    take(due, () => sweep(times), group),
    ...waiters.map((waiter) => take(due, () => expire(waiter, times), group)),
  ]
  return (await Promise.all(steps)).flatMap((ruled) => changesOf(due, ruled))
}

const findAt = readAll(
  'look for ended waits',
  (queueKey: string, seqs: readonly number[]) => selectAt({ queueKey, seqs }),
  storedWaiter.decode,
)

/** Sweeps one wait queue, and ends the waits of these waiters that are due. */
const sweepQueue = operation({
  name: 'sweep a lock',
  connectionGroup: 'waiting',
  mayUndo: true,
  *procedure(namespace: string, due: DueWaitQueue, times: LockTimes) {
    const name = nameWaitQueue(namespace, due)
    const opened = yield* tryOpenQueue(name, due.seqs)
    const changes: SweptWaitQueue[] = []
    if (!opened) {
      yield* undo()
      return changes
    }
    const { buffer, waiters } = opened
    const on = () => buffer
    if (buffer.isDue) changes.push(...changesOf(due, yield* runRule(sweep(times), due.operation, on)))
    for (const who of waiters)
      changes.push(...changesOf(due, yield* runRule(expire(who, times), due.operation, on)))
    yield* commitQueues([{ name, buffer }])
    return changes
  },
})

async function forget(
  database: Database,
  namespace: string,
  expired: Expired,
  keepMs: number,
): Promise<void> {
  const inBatches = async (take: () => Promise<number>) => {
    for (let batches = 0; batches < maxBatches; batches++) if ((await take()) < maxDeleted) return
  }
  if (expired.outcomes) await inBatches(() => database.run(forgetOutcomes, [namespace]))
  if (expired.results) await inBatches(() => database.run(forgetResults, [namespace]))
  if (expired.queues) await inBatches(() => database.run(forgetQueues, [namespace, keepMs]))
}

/** Skips rows that another transaction locked; the next sweep deletes them. */
const deleteKept = (table: string, key: string) =>
  serverStatement(`${table}_forget`, { namespace: 'text', limit: 'integer' }, (d) =>
    d.deleteFirst({
      from: `@${table}`,
      key,
      where: `namespace = :namespace AND kept_until <= ${d.now}`,
      orderBy: 'kept_until',
      limit: ':limit',
    }),
  )
const deleteOutcomes = deleteKept('lock_outcome', 'queue_key, node, request_id')
const deleteResults = deleteKept('lock_result', 'queue_key, revision')

const forgetOutcomes = operation({
  name: 'forget how locks ended',
  procedure: (namespace: string) => last(count(deleteOutcomes({ namespace, limit: maxDeleted }))),
})

const forgetResults = operation({
  name: 'forget results of locks',
  procedure: (namespace: string) => last(count(deleteResults({ namespace, limit: maxDeleted }))),
})

const selectIdle = serverStatement(
  'lock_queue_idle',
  { namespace: 'text', keepMs: 'integer', limit: 'integer' },
  (d) => `
SELECT queue_key FROM @lock_queue l ${d.byIndex('lock_queue_idle')}
WHERE namespace = :namespace AND idle_since <= ${d.now} - :keepMs AND grant_from <= ${d.now}
  AND NOT EXISTS (SELECT 1 FROM @lock_outcome o WHERE o.queue_key = l.queue_key)
ORDER BY idle_since LIMIT :limit`,
)

const deleteIdle = serverStatement(
  'lock_queue_forget',
  { queueKeys: 'text[]', keepMs: 'integer' },
  (d) => `
DELETE FROM @lock_queue WHERE queue_key IN (:queueKeys) AND idle_since <= ${d.now} - :keepMs AND grant_from <= ${d.now}
  AND NOT EXISTS (SELECT 1 FROM @lock_outcome o WHERE o.queue_key = @lock_queue.queue_key)`,
)

/**
 * Another transaction may have read a wait queue and be about to write it. So this deletes only wait queues that it can
 * lock, and only if they are still idle after it locked them.
 */
const forgetQueues = operation({
  name: 'forget locks',
  *procedure(namespace: string, keepMs: number) {
    const idle = yield* many<KeyRow>(selectIdle({ namespace, keepMs, limit: maxDeleted }))
    if (idle.length === 0) return 0
    const locked = yield* many<KeyRow>(tryLock({ queueKeys: keysOf(idle) }))
    if (locked.length === 0) return 0
    return yield* last(count(deleteIdle({ queueKeys: keysOf(locked), keepMs })))
  },
})

interface KeyRow {
  readonly queue_key: string
}

function keysOf(rows: readonly KeyRow[]): readonly string[] {
  return rows.map(({ queue_key }) => queue_key)
}
