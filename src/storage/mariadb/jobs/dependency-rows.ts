import type { Dependency, DependencyQuery, Unblocked } from '../../../jobs/index.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { carried, ending, leave } from './history.ts'

/**
 * Jobs that other jobs wait for. Whoever marks a job's dependencies has its row locked, so of two who mark different ones the
 * second sees what the first wrote, and one of them finds that none is left.
 */
const batch = 500

export async function listUnmet(
  { calls, tables, namespace }: Store,
  { of, after, limit }: DependencyQuery,
): Promise<readonly Dependency[]> {
  if (limit < 1 || of?.length === 0) return []
  const [where, values]: Statement =
    of !== undefined
      ? ['AND dependency_id IN (?)', [of]]
      : after === undefined
        ? ['', []]
        : [
            'AND job_id >= ? AND (job_id > ? OR dependency_id > ?)',
            [after.jobId, after.jobId, after.dependencyId],
          ]
  const index = of === undefined ? 'job_dependency_unmet' : 'job_dependency_dependents'
  const rows = await calls.run('list what jobs wait for', (call) =>
    call.rows<{ job_id: string; dependency_id: string }>(
      `SELECT job_id, dependency_id FROM ${tables.dependency} FORCE INDEX (${index})
        WHERE namespace = ? AND is_met = FALSE ${where} ORDER BY job_id, dependency_id LIMIT ?`,
      [namespace, ...values, limit],
    ),
  )
  return rows.map(({ job_id, dependency_id }) => ({ jobId: job_id, dependencyId: dependency_id }))
}

export async function meet(store: Store, dependencies: readonly Dependency[]): Promise<readonly Unblocked[]> {
  const letOn: Unblocked[] = []
  for (let from = 0; from < dependencies.length; from += batch) {
    letOn.push(...(await meetSome(store, dependencies.slice(from, from + batch))))
  }
  return letOn
}

async function meetSome(store: Store, dependencies: readonly Dependency[]): Promise<readonly Unblocked[]> {
  const { calls, tables, namespace, memory } = store
  const ids = [...new Set(dependencies.map(({ jobId }) => jobId))]
  const letOn = await calls.run('let jobs on', async (call) => {
    const waiting = await lockWaiting(store, call, ids)
    await call.packet([
      [
        `UPDATE (WITH v (job_id, dependency_id) AS (VALUES ?) SELECT * FROM v) met STRAIGHT_JOIN ${tables.dependency} n
          ON n.namespace = ? AND n.job_id = met.job_id AND n.dependency_id = met.dependency_id
          SET n.is_met = TRUE WHERE NOT n.is_met`,
        [sorted(dependencies).map(({ jobId, dependencyId }) => [jobId, dependencyId]), namespace],
      ],
    ])
    if (waiting.length === 0) {
      await call.packet([commit])
      return []
    }
    const free = await call.rows<FreeRow>(
      `SELECT q.id, q.queue, q.run_at <= ${nowMs} AS is_due, l.is_called FROM ${tables.queue} q FORCE INDEX (PRIMARY)
        LEFT JOIN ${tables.jobLock} l ON l.namespace = q.namespace AND l.job_id = q.id
        WHERE q.namespace = ? AND q.id IN (?) AND q.state = 'waiting' AND (l.is_called IS NULL OR NOT l.is_called)
          AND NOT EXISTS (
            SELECT 1 FROM ${tables.dependency} n WHERE n.namespace = q.namespace AND n.job_id = q.id AND NOT n.is_met)`,
      [namespace, waiting],
    )
    const called = free.filter(({ is_called }) => is_called !== null)
    const due = free.filter(({ is_called, is_due }) => is_called === null && is_due === 1)
    const early = free.filter(({ is_called, is_due }) => is_called === null && is_due !== 1)
    await call.packet([
      ...toLine(store, due, 'ready'),
      ...toLine(store, early, 'scheduled'),
      ...(called.length === 0
        ? []
        : [
            [
              `UPDATE ${tables.jobLock} SET is_called = TRUE WHERE namespace = ? AND job_id IN (?)`,
              [namespace, called.map(({ id }) => id).sort()],
            ] as const,
          ]),
      commit,
    ])
    const told = (rows: readonly FreeRow[], to: Unblocked['to']) =>
      rows.map(({ id, queue }): Unblocked => ({ jobId: id, queue, to }))
    return [...told(called, 'lock'), ...told(due, 'ready'), ...told(early, 'scheduled')]
  })
  if (letOn.length > 0) calls.onCommit(() => memory.positions.forget())
  return letOn
}

interface FreeRow {
  readonly id: string
  readonly queue: string
  readonly is_due: number
  /** Null: it waits for no lock. */
  readonly is_called: number | null
}

function toLine(
  { tables, namespace }: Store,
  rows: readonly FreeRow[],
  state: 'ready' | 'scheduled',
): readonly Statement[] {
  if (rows.length === 0) return []
  return [
    [
      `UPDATE ${tables.queue} SET state = '${state}', updated_at = ${nowMs} WHERE namespace = ? AND id IN (?)`,
      [namespace, rows.map(({ id }) => id).sort()],
    ],
  ]
}

/** Begins, and locks those of these jobs that wait, in order: two who want the same meet here. */
async function lockWaiting(
  { tables, namespace }: Store,
  call: Call,
  ids: readonly string[],
): Promise<readonly string[]> {
  const select = `SELECT id FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND state = 'waiting' ORDER BY id`
  const [, seen] = (await call.packet([begin, [select, [namespace, ids]]])) as [unknown, { id: string }[]]
  if (seen.length === 0) return []
  const locked = await call.rows<{ id: string }>(`${select} FOR UPDATE`, [
    namespace,
    seen.map(({ id }) => id),
  ])
  return locked.map(({ id }) => id)
}

export async function fail(
  store: Store,
  ends: readonly { readonly jobId: string; readonly error: string }[],
): Promise<readonly string[]> {
  const { calls, tables, namespace } = store
  const errors = new Map(ends.map(({ jobId, error }) => [jobId, error]))
  const failed: string[] = []
  for (let from = 0; from < errors.size; from += batch) {
    const some = [...errors.keys()].slice(from, from + batch)
    const ended = await calls.run('end jobs that wait', async (call) => {
      const ids = await lockWaiting(store, call, some)
      const columns = carried.split(',').map((column) => `q.${column.trim()}`)
      await call.packet([
        ...(ids.length === 0
          ? []
          : ([
              [
                `INSERT INTO ${tables.history} (${carried}, ${ending})
                  WITH v (job_id, error) AS (VALUES ?)
                  SELECT ${columns.join(', ')}, 'cancelled', q.attempt, q.hand_back_count, q.snooze_count, q.started_at,
                    ${nowMs}, q.worker_id,
                    NULL, NULL, v.error, FALSE
                  FROM v STRAIGHT_JOIN ${tables.queue} q ON q.namespace = ? AND q.id = v.job_id`,
                [ids.map((id) => [id, errors.get(id)]), namespace],
              ],
              ...leave(store, ids),
              [
                `UPDATE ${tables.dependency} SET is_met = TRUE WHERE namespace = ? AND job_id IN (?)`,
                [namespace, ids],
              ],
            ] satisfies Statement[])),
        commit,
      ])
      return ids
    })
    failed.push(...ended)
  }
  return failed
}

function sorted(dependencies: readonly Dependency[]): readonly Dependency[] {
  const key = ({ jobId, dependencyId }: Dependency) => `${jobId}\n${dependencyId}`
  return [...dependencies].sort((a, b) => (key(a) < key(b) ? -1 : 1))
}
