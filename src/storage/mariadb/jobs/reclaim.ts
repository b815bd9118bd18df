import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { keepLost, toCancelled, toDead, toReady } from './history.ts'
import { queueNames } from './layout.ts'

/**
 * Takes back expired jobs, promotes due jobs, and ends jobs that should have been cancelled. A plain read finds them,
 * because there may be many dead index entries that are not purged yet, and a locking read would lock each of them. The
 * found rows are then locked by primary key with SKIP LOCKED. If another transaction has locked a running job's row, it
 * may be about to settle the job (also a user's transaction that works for long), and that transaction decides.
 */
export interface Overdue {
  readonly id: string
  readonly state: 'scheduled' | 'running'
  readonly attempt: number
  readonly max_attempts: number
}

export interface Reclaimed {
  readonly ready: number
  readonly dead: number
  readonly cancelled: number
}

/** The ids of due and expired jobs of these queues that other transactions have committed. Not locked. */
export function selectOverdue(
  { tables, namespace }: Store,
  queues: readonly string[],
  states: readonly Overdue['state'][],
  limit: number,
): Statement {
  return [
    `SELECT id FROM ${tables.queue} FORCE INDEX (job_queue_order) ${overdueWhere} LIMIT ?`,
    [namespace, queues, states, limit],
  ]
}

const overdueWhere = `WHERE namespace = ? AND queue IN (?) AND state IN (?) AND sort_rank = 0 AND sort_at <= ${nowMs}`

/** Locks the jobs found by `selectOverdue` that are still overdue and not locked. */
export async function lockOverdue(
  { tables, namespace }: Store,
  call: Call,
  seen: readonly { readonly id: string }[],
  queues: readonly string[],
  states: readonly Overdue['state'][],
  limit: number,
): Promise<readonly Overdue[]> {
  if (seen.length === 0) return []
  const columns = 'id, state, attempt, max_attempts'
  const locked = await call.rows<Overdue>(
    `SELECT ${columns} FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND state IN (?) AND sort_at <= ${nowMs} FOR UPDATE SKIP LOCKED`,
    [namespace, seen.map(({ id }) => id).sort(), states],
  )
  if (locked.length > 0 || seen.length < limit) return locked
  // Other transactions have locked all of the jobs found. These must not hide the jobs behind them.
  return call.rows<Overdue>(
    `SELECT ${columns} FROM ${tables.queue} FORCE INDEX (job_queue_order) ${overdueWhere}
      LIMIT ? FOR UPDATE SKIP LOCKED`,
    [namespace, queues, states, limit],
  )
}

/** The jobs with a cancellation request. There are very few, so all are read. */
export function selectCancels({ tables, namespace }: Store): Statement {
  return [`SELECT job_id AS id FROM ${tables.cancel} WHERE namespace = ? LIMIT 10000`, [namespace]]
}

/** The statements for rows that `lockOverdue` locked. */
export function takeBack(
  store: Store,
  rows: readonly Overdue[],
  cancels: ReadonlySet<string>,
): { readonly statements: readonly Statement[]; readonly count: Reclaimed } {
  const ready: string[] = []
  const dead: string[] = []
  const cancelled: string[] = []
  let reclaimedReady = 0
  for (const row of rows) {
    if (cancels.has(row.id)) cancelled.push(row.id)
    else if (row.state === 'running' && row.attempt >= row.max_attempts) dead.push(row.id)
    else {
      ready.push(row.id)
      if (row.state === 'running') reclaimedReady++
    }
  }
  const lost = rows.filter(({ state }) => state === 'running').map(({ id }) => id)
  return {
    statements: [
      ...keepLost(store, lost.sort()),
      ...toReady(store, ready.sort()),
      ...toDead(store, dead.sort()),
      ...toCancelled(store, cancelled.sort()),
    ],
    count: { ready: reclaimedReady, dead: dead.length, cancelled: cancelled.length },
  }
}

/** Implements JobStore.reclaim: takes back the expired leases of all queues. */
export async function reclaim(store: Store, limit: number): Promise<Reclaimed> {
  if (limit < 1) return { ready: 0, dead: 0, cancelled: 0 }
  return store.calls.run('take back jobs', async (call) => {
    const queues = await liveQueues(store, call)
    const [, seen, cancels, stray] = (await call.packet([
      begin,
      queues.length === 0
        ? ['SELECT 1 AS id WHERE FALSE', []]
        : selectOverdue(store, queues, ['running'], limit),
      selectCancels(store),
      selectStray(store, limit),
    ])) as [unknown, { id: string }[], { id: string }[], { id: string }[]]
    const { statements, count } = takeBack(
      store,
      await lockOverdue(store, call, seen, queues, ['running'], limit),
      new Set(cancels.map(({ id }) => id)),
    )
    const strays = stray.map(({ id }) => id)
    await call.packet([...statements, ...toCancelled(store, strays), commit])
    return { ...count, cancelled: count.cancelled + strays.length }
  })
}

async function liveQueues({ tables, namespace }: Store, call: Call): Promise<readonly string[]> {
  const rows = await call.rows<{ queue: string }>(queueNames(tables.queue), [namespace, namespace])
  return rows.map(({ queue }) => queue)
}

/**
 * Jobs that became ready again at the moment of their cancellation request. Neither transaction saw the other, because
 * a cancellation never waits for a running job's row.
 */
function selectStray({ tables, namespace }: Store, limit: number): Statement {
  return [
    `SELECT q.id FROM ${tables.cancel} c STRAIGHT_JOIN ${tables.queue} q
      ON q.namespace = c.namespace AND q.id = c.job_id
      WHERE c.namespace = ? AND q.state IN ('scheduled', 'ready', 'waiting') LIMIT ? FOR UPDATE SKIP LOCKED`,
    [namespace, limit],
  ]
}

/** Ends those of these jobs that are dead, so that their keys become free. Returns whether there were any. */
export async function reclaimThese(store: Store, ids: readonly string[]): Promise<boolean> {
  return store.calls.run('take back jobs', async (call) => {
    const { tables, namespace } = store
    const [, overdue, cancels] = (await call.packet([
      begin,
      [
        `SELECT id, state, attempt, max_attempts FROM ${tables.queue}
          WHERE namespace = ? AND id IN (?) AND state = 'running' AND lease_ends_at <= ${nowMs} FOR UPDATE SKIP LOCKED`,
        [namespace, ids],
      ],
      selectCancels(store),
    ])) as [unknown, Overdue[], { id: string }[]]
    const { statements, count } = takeBack(store, overdue, new Set(cancels.map(({ id }) => id)))
    await call.packet([...statements, commit])
    return count.dead + count.cancelled > 0
  })
}
