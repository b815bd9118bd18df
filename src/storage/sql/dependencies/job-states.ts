import type { JobState } from '../../../jobs/index.ts'
import { many, type Procedure } from '../procedure.ts'
import { type Statement, statement } from '../statement.ts'

/** The current state of a job, and the time until it is due. */
export interface SeenJob {
  readonly state: JobState
  readonly dueInMs: number
}

interface SeenRow {
  readonly id: string
  readonly state: JobState
  readonly due_in_ms: number | string
}

const params = { namespace: 'text', ids: 'text[]' } as const

/** Reads both tables at one moment, so that a job that moves from one to the other is never missed. */
export const selectStates: Statement<{ namespace: string; ids: readonly string[] }> = statement(
  'job_states',
  params,
  ({ jobs }) => jobs.states.join('\nUNION ALL '),
)

/** Reads the states of these jobs, as `find` shows them. Missing jobs are left out. */
export function* readStates(
  namespace: string,
  ids: readonly string[],
): Procedure<ReadonlyMap<string, SeenJob>> {
  const rows = ids.length === 0 ? [] : yield* many<SeenRow>(selectStates({ namespace, ids }))
  return new Map(rows.map(({ id, state, due_in_ms: dueInMs }) => [id, { state, dueInMs: Number(dueInMs) }]))
}

/**
 * Locks the waiting jobs among these, in the order of their ids. On MariaDB the inner SELECT locks nothing, because a
 * user's transaction may lock the row of a running job for a long time.
 */
export const lockWaiting: Statement<{ namespace: string; ids: readonly string[] }> = statement(
  'job_lock_waiting',
  params,
  (d) => `
SELECT q.id, q.queue FROM (
  SELECT p.id ${d.byKeys({
    ...{ from: '@job_queue', alias: 'p', key: 'p.id', keys: ':ids' },
    where: `p.namespace = :namespace AND p.state = 'waiting'`,
  })} ORDER BY p.id LIMIT 100000) w
${d.thenJoin('@job_queue', 'q', 'q.namespace = :namespace AND q.id = w.id')}
WHERE q.state = 'waiting' ORDER BY q.id ${d.forUpdate}`,
)

/** Locks one job if it does not run. */
export const lockIdle: Statement<{ namespace: string; id: string }> = statement(
  'job_lock_idle',
  { namespace: 'text', id: 'text' },
  (d) => `
SELECT q.id FROM (
  SELECT id FROM @job_queue WHERE namespace = :namespace AND id = :id AND state <> 'running' LIMIT 1) w
${d.thenJoin('@job_queue', 'q', 'q.namespace = :namespace AND q.id = w.id')}
WHERE q.state <> 'running' ${d.forUpdate}`,
)

/** Writes the state of live jobs. The caller has locked their rows. */
export const setState: Statement<{
  namespace: string
  rows: readonly { readonly id: string }[]
  state: string
}> = statement('job_set_state', { namespace: 'text', rows: { id: 'text' }, state: 'text' }, (d) =>
  d.updateByRows(
    '@job_queue',
    { state: ':state', updated_at: d.now },
    't.namespace = :namespace AND t.id = v.id',
  ),
)
