import type { DependencyStore, Neighbour, Neighbours } from '../../../jobs/index.ts'
import { toCallerTx } from '../connection/caller-transaction.ts'
import { type Calls, rowCount, type Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'
import type { Tables } from '../tables.ts'
import { checkTransaction } from './add.ts'
import { blockAgain, fences, grant, hasCalled, rest, take, tend } from './dependency-locks.ts'
import { fail, listUnmet, meet } from './dependency-rows.ts'
import { readStates } from './job-states.ts'

/**
 * What jobs wait for. Rows are locked in one order: the job's, then what it waits for. A job's row is waited for only
 * while the job waits: a running one may be locked by a user's transaction for long.
 */
export function createMariadbDependencies(store: Store): DependencyStore {
  return {
    states: async (ids) => {
      const states = await store.calls.run('look up jobs', (call) => readStates(store, call, ids))
      return ids.map((id) => states.get(id)?.state)
    },
    seenIn: (tx, ids) => seenIn(store, tx, ids),
    unmet: (query) => listUnmet(store, query),
    meet: (dependencies) => meet(store, dependencies),
    fail: (ends) => fail(store, ends),
    around: (id, limit) => around(store, id, limit),
    tend: (request) => tend(store, request),
    hasCalled: () => hasCalled(store),
    grant: (request) => grant(store, request),
    blockAgain: (request) => blockAgain(store, request),
    fences: (ids) => fences(store, ids),
    take: (ids) => take(store, ids),
    rest: (ids) => rest(store, ids),
    prune: (limit) => prune(store, limit),
  }
}

/** Bound as bytes: the caller's connection may speak another character set. */
async function seenIn(store: Store, tx: unknown, ids: readonly string[]): Promise<readonly string[]> {
  const { calls, namespace, tables } = store
  const caller = await toCallerTx(tx)
  calls.requireOpen()
  await checkTransaction(store, caller)
  const from = (table: string) =>
    `SELECT id FROM ${table} WHERE namespace = _utf8mb4 ? AND id IN (${ids.map(() => '_utf8mb4 ?').join(', ')})`
  const values = [namespace, ...ids].map((text) => Buffer.from(text))
  const sql = `${from(tables.queue)} UNION ALL ${from(tables.history)}`
  const rows = (await caller.query(sql, [...values, ...values])) as { id: string }[]
  return rows.map(({ id }) => id)
}

async function around(store: Store, id: string, limit: number): Promise<Neighbours> {
  const { calls, tables, namespace } = store
  if (limit < 1) return { dependencies: [], dependents: [] }
  return calls.run('look up what jobs wait for', async (call) => {
    const select = (of: string, other: string): Statement => [
      `SELECT ${other} AS id, is_met FROM ${tables.dependency} WHERE namespace = ? AND ${of} = ? ORDER BY ${other} LIMIT ?`,
      [namespace, id, limit],
    ]
    const [dependencies, dependents] = (await call.packet([
      select('job_id', 'dependency_id'),
      select('dependency_id', 'job_id'),
    ])) as [NeighbourRow[], NeighbourRow[]]
    const states = await readStates(
      store,
      call,
      [...dependencies, ...dependents].map((row) => row.id),
    )
    const show = (row: NeighbourRow): Neighbour => ({
      id: row.id,
      state: states.get(row.id)?.state,
      isMet: row.is_met === 1,
    })
    return { dependencies: dependencies.map(show), dependents: dependents.map(show) }
  })
}

interface NeighbourRow {
  readonly id: string
  readonly is_met: number
}

const page = 1_000

/** Page by page through the keys, so that no statement reads for long. */
async function prune(store: Store, limit: number): Promise<number> {
  const { tables } = store
  let forgotten = 0
  for (const table of [tables.dependency, tables.jobLock]) {
    for (let after: string | undefined = ''; after !== undefined && forgotten < limit; ) {
      const { count, last }: Forgotten = await forgetGone(store, table, after, limit - forgotten)
      forgotten += count
      after = last
    }
  }
  return forgotten
}

interface Forgotten {
  readonly count: number
  /** The last job that was looked at; undefined: there are no more. */
  readonly last: string | undefined
}

async function forgetGone(
  { calls, tables, namespace }: Store,
  table: string,
  after: string,
  limit: number,
): Promise<Forgotten> {
  return calls.run('forget what jobs waited for', async (call) => {
    const rows = await call.rows<{ id: string; gone: number }>(
      `SELECT g.job_id AS id, q.id IS NULL AND h.id IS NULL AS gone
        FROM (SELECT DISTINCT job_id FROM ${table} WHERE namespace = ? AND job_id > ? ORDER BY job_id LIMIT ${page}) g
        LEFT JOIN ${tables.queue} q ON q.namespace = ? AND q.id = g.job_id
        LEFT JOIN ${tables.history} h ON h.namespace = ? AND h.id = g.job_id
        ORDER BY g.job_id`,
      [namespace, after, namespace, namespace],
    )
    const gone = rows.filter((row) => row.gone === 1).map(({ id }) => id)
    const last = rows.length < page ? undefined : rows.at(-1)!.id
    if (gone.length === 0) return { count: 0, last }
    const [deleted] = await call.packet([
      [`DELETE FROM ${table} WHERE namespace = ? AND job_id IN (?) LIMIT ?`, [namespace, gone, limit]],
    ])
    return { count: rowCount(deleted), last }
  })
}

/** Namespaces in which a job waits for another, or stands in line for a lock. */
export async function listGated(
  { calls, tables }: { readonly calls: Calls; readonly tables: Tables },
  limit: number,
): Promise<readonly string[]> {
  const rows = await calls.run('read', (call) =>
    call.rows<{ namespace: string }>(
      `SELECT namespace FROM ${tables.dependency} WHERE NOT is_met GROUP BY namespace
        UNION SELECT namespace FROM ${tables.jobLock} GROUP BY namespace ORDER BY namespace LIMIT ?`,
      [limit],
    ),
  )
  return rows.map(({ namespace }) => namespace)
}
