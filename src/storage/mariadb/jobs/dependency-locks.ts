import type {
  BlockAgainRequest,
  Fence,
  LockDependency,
  TakenFence,
  TendRequest,
} from '../../../jobs/index.ts'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { readStates } from './job-states.ts'

/** Locks that jobs wait for before each of their attempts: what was asked for, and what was granted. */
interface LockRow {
  readonly job_id: string
  readonly operation: string
  readonly resource: string
  readonly ask_no: number | string
  readonly fence: number | string | null
  readonly is_taken: number
}

const isTaken = 'fence IS NOT NULL AND fence <=> taken_fence AS is_taken'

/** Those that somebody else is just tending, granting or shutting are left to them, unless they are asked for by name. */
export async function tend(
  store: Store,
  { limit, tendMs, of }: TendRequest,
): Promise<readonly LockDependency[]> {
  const { calls, tables, namespace } = store
  if (limit < 1 || of?.length === 0) return []
  return calls.run('tend jobs that wait for locks', async (call) => {
    const select = `SELECT job_id, operation, resource, ask_no, fence, ${isTaken} FROM ${tables.jobLock}`
    const [, rows] = (await call.packet([
      begin,
      of === undefined
        ? [
            `${select} FORCE INDEX (job_lock_tend) WHERE namespace = ? AND is_called = TRUE AND tended_until <= ${nowMs}
              ORDER BY tended_until, job_id LIMIT ? FOR UPDATE SKIP LOCKED`,
            [namespace, limit],
          ]
        : [
            `${select} FORCE INDEX (PRIMARY) WHERE namespace = ? AND job_id IN (?) AND is_called = TRUE
              ORDER BY job_id LIMIT ? FOR UPDATE`,
            [namespace, of, limit],
          ],
    ])) as [unknown, LockRow[]]
    const ids = rows.map(({ job_id }) => job_id)
    await call.packet([
      ...(ids.length === 0
        ? []
        : [
            [
              `UPDATE ${tables.jobLock} SET tended_until = ${nowMs} + ? WHERE namespace = ? AND job_id IN (?)`,
              [tendMs, namespace, [...ids].sort()],
            ] as const,
          ]),
      commit,
    ])
    const states = await readStates(store, call, ids)
    return rows.map((row) => ({
      jobId: row.job_id,
      operation: row.operation,
      resource: row.resource,
      askNo: Number(row.ask_no),
      fence: row.fence === null ? null : Number(row.fence),
      isTaken: row.is_taken === 1,
      state: states.get(row.job_id)?.state,
      dueInMs: states.get(row.job_id)?.dueInMs ?? 0,
    }))
  })
}

export async function hasCalled({ calls, tables, namespace }: Store): Promise<boolean> {
  const rows = await calls.run('look for jobs that wait for locks', (call) =>
    call.rows(
      `SELECT 1 FROM ${tables.jobLock} FORCE INDEX (job_lock_tend) WHERE namespace = ? AND is_called = TRUE LIMIT 1`,
      [namespace],
    ),
  )
  return rows.length > 0
}

export async function grant(
  { calls, tables, namespace, memory }: Store,
  { jobId, askNo, fence }: { readonly jobId: string; readonly askNo: number; readonly fence: number },
): Promise<string | undefined> {
  const job = `SELECT queue FROM ${tables.queue} WHERE namespace = ? AND id = ? AND state = 'waiting'`
  const queue = await calls.run('let a job on', async (call) => {
    const [, [seen]] = (await call.packet([begin, [job, [namespace, jobId]]])) as [unknown, JobLine[]]
    const [[locked], [asked]] =
      seen === undefined
        ? [[], []]
        : ((await call.packet([
            [`${job} FOR UPDATE`, [namespace, jobId]],
            [
              `SELECT job_id FROM ${tables.jobLock} WHERE namespace = ? AND job_id = ? AND ask_no = ? AND is_called FOR UPDATE`,
              [namespace, jobId, askNo],
            ],
          ])) as [JobLine[], unknown[]])
    if (locked === undefined || asked === undefined) {
      await call.packet([commit])
      return undefined
    }
    await call.packet([
      [
        `UPDATE ${tables.queue} SET state = IF(run_at <= ${nowMs}, 'ready', 'scheduled'), updated_at = ${nowMs}
          WHERE namespace = ? AND id = ?`,
        [namespace, jobId],
      ],
      [
        `UPDATE ${tables.jobLock} SET fence = ? WHERE namespace = ? AND job_id = ?`,
        [fence, namespace, jobId],
      ],
      commit,
    ])
    return locked.queue
  })
  if (queue !== undefined) calls.onCommit(() => memory.positions.forget())
  return queue
}

interface JobLine {
  readonly queue: string
}

/**
 * A job whose lease ran out is in line, whether or not anybody has taken it back; it must not be claimed from there
 * without its lock. A row that somebody has locked is being granted, claimed, put back or ended this moment, so it is
 * looked at again; a running one's is left to whoever ends it.
 */
export async function blockAgain(
  { calls, tables, namespace }: Store,
  { jobId, askNo, fence }: BlockAgainRequest,
): Promise<boolean> {
  const runs = `q.state = 'running' AND (q.lease_ends_at > ${nowMs} OR q.attempt >= q.max_attempts OR EXISTS (
        SELECT 1 FROM ${tables.cancel} c WHERE c.namespace = q.namespace AND c.job_id = q.id))`
  const job = `SELECT ${runs} AS runs, q.state = 'running' AS was_running FROM ${tables.queue} q WHERE q.namespace = ? AND q.id = ?`
  return calls.until('shut a job out', (deadline) =>
    calls.run(
      'shut a job out',
      async (call): Promise<boolean | undefined> => {
        const [, [locked], [seen]] = (await call.packet([
          begin,
          [`${job} FOR UPDATE SKIP LOCKED`, [namespace, jobId]],
          [job, [namespace, jobId]],
        ])) as [unknown, Standing[], Standing[]]
        if (locked === undefined && seen?.was_running === 0) {
          await call.packet([commit])
          return undefined
        }
        const [asked] = await call.rows<unknown>(
          `SELECT job_id FROM ${tables.jobLock} WHERE namespace = ? AND job_id = ? AND ask_no = ?
            AND (? OR fence <=> ?) FOR UPDATE`,
          [namespace, jobId, askNo, fence === undefined, fence ?? null],
        )
        const statements: Statement[] = []
        if (asked !== undefined) {
          statements.push([
            `UPDATE ${tables.jobLock} SET fence = NULL, ask_no = ask_no + 1, is_called = TRUE, tended_until = 0
              WHERE namespace = ? AND job_id = ?`,
            [namespace, jobId],
          ])
        }
        if (asked !== undefined && locked?.runs === 0) {
          statements.push([
            `UPDATE ${tables.queue} SET state = 'waiting', lease_ends_at = NULL, updated_at = ${nowMs}
              WHERE namespace = ? AND id = ?`,
            [namespace, jobId],
          ])
        }
        await call.packet([...statements, commit])
        return asked !== undefined
      },
      deadline,
    ),
  )
}

interface Standing {
  /** It runs, or ran until it was dead or is to be cancelled: then nobody claims it. */
  readonly runs: number
  /** It runs, or its lease ran out and nobody has taken it back. */
  readonly was_running: number
}

export async function fences(
  { calls, tables, namespace }: Store,
  ids: readonly string[],
): Promise<readonly (Fence | undefined)[]> {
  if (ids.length === 0) return []
  const rows = await calls.run('look up locks of jobs', (call) =>
    call.rows<LockRow>(
      `SELECT job_id, ask_no, fence FROM ${tables.jobLock} WHERE namespace = ? AND job_id IN (?)`,
      [namespace, ids],
    ),
  )
  const byId = new Map(
    rows.map(({ job_id, ask_no, fence }) => [
      job_id,
      { askNo: Number(ask_no), fence: fence === null ? null : Number(fence) },
    ]),
  )
  return ids.map((id) => byId.get(id))
}

export async function take(
  { calls, tables, namespace }: Store,
  ids: readonly string[],
): Promise<readonly (TakenFence | undefined)[]> {
  if (ids.length === 0) return []
  const wanted = [...ids].sort()
  const rows = await calls.run('take locks of jobs', async (call) => {
    const [, seen] = (await call.packet([
      begin,
      [
        `SELECT job_id, ask_no, fence, ${isTaken} FROM ${tables.jobLock} FORCE INDEX (PRIMARY)
          WHERE namespace = ? AND job_id IN (?) ORDER BY job_id FOR UPDATE`,
        [namespace, wanted],
      ],
    ])) as [unknown, LockRow[]]
    await call.packet([
      [
        `UPDATE ${tables.jobLock} SET taken_fence = fence WHERE namespace = ? AND job_id IN (?) AND fence IS NOT NULL`,
        [namespace, wanted],
      ],
      commit,
    ])
    return seen
  })
  const byId = new Map(rows.map((row) => [row.job_id, row]))
  return ids.map((id) => {
    const row = byId.get(id)
    if (row === undefined) return undefined
    const fence = row.fence === null ? null : Number(row.fence)
    return { askNo: Number(row.ask_no), fence, isTaken: row.is_taken === 1 }
  })
}

export async function rest(store: Store, ids: readonly string[]): Promise<void> {
  const { calls, tables, namespace } = store
  await calls.run('put dependencies of jobs to rest', async (call) => {
    const states = await readStates(store, call, ids)
    const ended = [...states].filter(([, { state }]) => ends.has(state)).map(([id]) => id)
    if (ended.length === 0) return
    await call.rows(
      `UPDATE ${tables.jobLock} SET fence = NULL, ask_no = ask_no + 1, is_called = FALSE
        WHERE namespace = ? AND job_id IN (?)`,
      [namespace, ended.sort()],
    )
  })
}

const ends: ReadonlySet<string> = new Set(['completed', 'dead', 'cancelled'])
