import type {
  Dependency,
  DependencyStore,
  LockDependency,
  TakenFence,
  TendRequest,
  Unblocked,
} from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'
import { readStates } from './dependency-reads.ts'
import { endJobs } from './end-job.ts'
import { takeBackIfLapsed } from './lapse.ts'

/** What is written about dependencies, each in the caller's transaction, on jobs as they are at `now`. */
export interface GateSteps {
  meet(dependencies: readonly Dependency[]): readonly Unblocked[]
  fail(ends: readonly { readonly jobId: string; readonly error: string }[]): readonly string[]
  tend(request: TendRequest): readonly LockDependency[]
  grant(request: Parameters<DependencyStore['grant']>[0]): string | undefined
  blockAgain(request: Parameters<DependencyStore['blockAgain']>[0]): boolean
  /** Of those that have a dependsOn. */
  take(ids: readonly string[]): readonly TakenGate[]
  rest(ids: readonly string[]): void
  prune(ids: readonly string[], limit: number): number
}

export interface TakenGate extends TakenFence {
  readonly jobId: string
}

/** One step by name, in plain data. */
export type GateStep = {
  [Name in keyof GateSteps]: [name: Name, args: Parameters<GateSteps[Name]>]
}[keyof GateSteps]

export function takeGateStep(
  connection: Connection,
  namespace: string,
  [name, args]: GateStep,
  now: number,
): ReturnType<GateSteps[GateStep[0]]> {
  switch (name) {
    case 'meet':
      return meetDependencies(connection, namespace, args[0], now)
    case 'fail':
      return args[0].flatMap(({ jobId, error }) =>
        failJob(connection, namespace, jobId, error, now) ? [jobId] : [],
      )
    case 'tend':
      return tendGates(connection, namespace, args[0], now)
    case 'grant':
      return grantLock(connection, namespace, args[0], now)
    case 'blockAgain':
      return shutGate(connection, namespace, args[0], now)
    case 'take':
      return takeFences(connection, namespace, args[0])
    case 'rest':
      return restGates(connection, namespace, args[0])
    case 'prune':
      return pruneGates(connection, namespace, args[0], args[1])
  }
}

function meetDependencies(
  connection: Connection,
  namespace: string,
  dependencies: readonly Dependency[],
  now: number,
): readonly Unblocked[] {
  const met = dependencies.filter(({ jobId, dependencyId }) => {
    const sql = `UPDATE job_dependency SET is_met = 1
       WHERE namespace = ?1 AND job_id = ?2 AND dependency_id = ?3 AND is_met = 0`
    return connection.run(sql, namespace, jobId, dependencyId) === 1
  })
  return [...new Set(met.map(({ jobId }) => jobId))].flatMap((jobId): Unblocked[] => {
    const job = findWaiting(connection, namespace, jobId)
    if (!job || hasUnmet(connection, namespace, jobId)) return []
    const { queue } = job
    const look = 'SELECT is_called FROM job_lock WHERE namespace = ?1 AND job_id = ?2'
    const lock = connection.get<{ is_called: number }>(look, namespace, jobId)
    if (!lock) return [{ jobId, queue, to: letOn(connection, job, now) }]
    if (lock.is_called === 1) return []
    connection.run('UPDATE job_lock SET is_called = 1 WHERE namespace = ?1 AND job_id = ?2', namespace, jobId)
    return [{ jobId, queue, to: 'lock' }]
  })
}

function failJob(
  connection: Connection,
  namespace: string,
  jobId: string,
  error: string,
  now: number,
): boolean {
  const job = findWaiting(connection, namespace, jobId)
  if (!job) return false
  endJobs(connection, [{ row: job.row, state: 'cancelled', error, cancelRequested: false }], now)
  const sql = 'UPDATE job_dependency SET is_met = 1 WHERE namespace = ?1 AND job_id = ?2 AND is_met = 0'
  connection.run(sql, namespace, jobId)
  return true
}

interface LockRow {
  readonly jobId: string
  readonly operation: string
  readonly resource: string
  readonly askNo: number
  readonly fence: number | null
  readonly isTaken: number
}

const isTaken = 'fence IS NOT NULL AND fence IS taken_fence AS isTaken'
const lockColumns = `job_id AS jobId, operation, resource, ask_no AS askNo, fence, ${isTaken}`

function tendGates(
  connection: Connection,
  namespace: string,
  { limit, tendMs, of }: TendRequest,
  now: number,
): readonly LockDependency[] {
  // With `+`, SQLite goes by the ids and not by the index of all that are called.
  const which =
    of === undefined
      ? 'is_called = 1 AND tended_until <= ?3'
      : '+is_called = 1 AND job_id IN (SELECT value FROM json_each(?3))'
  const rows = connection.all<LockRow>(
    `SELECT ${lockColumns} FROM job_lock
     WHERE namespace = ?1 AND ${which} ORDER BY tended_until, job_id LIMIT ?2`,
    namespace,
    limit,
    of === undefined ? now : JSON.stringify(of),
  )
  if (rows.length === 0) return []
  const ids = rows.map(({ jobId }) => jobId)
  connection.run(
    `UPDATE job_lock SET tended_until = ?3
     WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))`,
    namespace,
    JSON.stringify(ids),
    now + tendMs,
  )
  const jobs = readStates(connection, namespace, ids, now)
  return rows.map((row, at) => ({
    ...{ ...row, isTaken: row.isTaken === 1 },
    ...{ state: jobs[at]?.state, dueInMs: jobs[at]?.dueInMs ?? 0 },
  }))
}

function grantLock(
  connection: Connection,
  namespace: string,
  { jobId, askNo, fence }: Parameters<DependencyStore['grant']>[0],
  now: number,
): string | undefined {
  const job = findWaiting(connection, namespace, jobId)
  if (!job) return undefined
  const granted = connection.run(
    `UPDATE job_lock SET fence = ?4 WHERE namespace = ?1 AND job_id = ?2 AND ask_no = ?3 AND is_called = 1`,
    namespace,
    jobId,
    askNo,
    fence,
  )
  if (granted === 0) return undefined
  letOn(connection, job, now)
  return job.queue
}

function shutGate(
  connection: Connection,
  namespace: string,
  { jobId, askNo, fence }: Parameters<DependencyStore['blockAgain']>[0],
  now: number,
): boolean {
  const blockAgain = connection.run(
    `UPDATE job_lock SET fence = NULL, ask_no = ask_no + 1, is_called = 1, tended_until = 0
     WHERE namespace = ?1 AND job_id = ?2 AND ask_no = ?3 AND (?4 OR fence IS ?5)`,
    namespace,
    jobId,
    askNo,
    fence === undefined ? 1 : 0,
    fence ?? null,
  )
  if (blockAgain === 0) return false
  takeBackIfLapsed(connection, namespace, jobId, now)
  connection.run(
    `UPDATE job_queue SET state = 'waiting', updated_at = ?3
     WHERE namespace = ?1 AND id = ?2 AND state IN ('ready', 'scheduled')`,
    namespace,
    jobId,
    now,
  )
  return true
}

function takeFences(connection: Connection, namespace: string, ids: readonly string[]): readonly TakenGate[] {
  const wanted = JSON.stringify(ids)
  const among = 'WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))'
  const rows = connection.all<LockRow>(`SELECT ${lockColumns} FROM job_lock ${among}`, namespace, wanted)
  const take = `UPDATE job_lock SET taken_fence = fence ${among} AND fence IS NOT NULL`
  connection.run(take, namespace, wanted)
  return rows.map(({ jobId, askNo, fence, isTaken }) => ({ jobId, askNo, fence, isTaken: isTaken === 1 }))
}

function restGates(connection: Connection, namespace: string, ids: readonly string[]): void {
  connection.run(
    `UPDATE job_lock SET fence = NULL, ask_no = ask_no + 1, is_called = 0
     WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))
       AND EXISTS (SELECT 1 FROM job_history h WHERE h.namespace = ?1 AND h.id = job_lock.job_id)`,
    namespace,
    JSON.stringify(ids),
  )
}

/** Of these jobs, those that are gone: what they waited for is forgotten, up to `limit` rows. */
function pruneGates(
  connection: Connection,
  namespace: string,
  ids: readonly string[],
  limit: number,
): number {
  const isGone = `job_id IN (SELECT value FROM json_each(?2))
       AND NOT EXISTS (SELECT 1 FROM job_queue q WHERE q.namespace = ?1 AND q.id = job_id)
       AND NOT EXISTS (SELECT 1 FROM job_history h WHERE h.namespace = ?1 AND h.id = job_id)`
  const wanted = JSON.stringify(ids)
  const dependencies = connection.run(
    `DELETE FROM job_dependency WHERE namespace = ?1 AND (job_id, dependency_id) IN (
       SELECT job_id, dependency_id FROM job_dependency WHERE namespace = ?1 AND ${isGone} LIMIT ?3)`,
    namespace,
    wanted,
    limit,
  )
  const locks = connection.run(
    `DELETE FROM job_lock WHERE namespace = ?1 AND job_id IN (
       SELECT job_id FROM job_lock WHERE namespace = ?1 AND ${isGone} LIMIT ?3)`,
    namespace,
    wanted,
    limit - dependencies,
  )
  return dependencies + locks
}

interface WaitingRow {
  readonly row: number
  readonly queue: string
  readonly run_at: number
}

function findWaiting(connection: Connection, namespace: string, id: string): WaitingRow | undefined {
  const sql = `SELECT rowid AS row, queue, run_at FROM job_queue
     WHERE namespace = ?1 AND id = ?2 AND state = 'waiting'`
  return connection.get<WaitingRow>(sql, namespace, id)
}

function hasUnmet(connection: Connection, namespace: string, jobId: string): boolean {
  const sql = 'SELECT 1 FROM job_dependency WHERE namespace = ?1 AND job_id = ?2 AND is_met = 0 LIMIT 1'
  return connection.get(sql, namespace, jobId) !== undefined
}

/** Puts a job that waits in line. */
function letOn(
  connection: Connection,
  { row, run_at: runAt }: WaitingRow,
  now: number,
): 'ready' | 'scheduled' {
  const state = runAt <= now ? 'ready' : 'scheduled'
  connection.run('UPDATE job_queue SET state = ?2, updated_at = ?3 WHERE rowid = ?1', row, state, now)
  return state
}
