import type { JobState } from '../../../jobs/index.ts'
import { liveState } from '../../sql/job-layout.ts'
import type { Call } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

const state = liveState({ now: nowMs, text: (expression) => `CAST(${expression} AS CHAR)` })

/** What a job is at this moment, and how long until it is due. */
export interface SeenJob {
  readonly state: JobState
  readonly dueInMs: number
}

/** What these jobs are, by id, as `find` shows it; a job that is gone is left out. */
export async function readStates(
  { tables, namespace }: Store,
  call: Call,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SeenJob>> {
  if (ids.length === 0) return new Map()
  const rows = await call.rows<{ id: string; state: JobState; due_in_ms: number }>(
    `SELECT q.id, ${state} AS state, GREATEST(0, q.run_at - ${nowMs}) AS due_in_ms FROM ${tables.queue} q
        LEFT JOIN ${tables.cancel} c ON c.namespace = q.namespace AND c.job_id = q.id WHERE q.namespace = ? AND q.id IN (?)
      UNION ALL SELECT h.id, CAST(h.state AS CHAR), GREATEST(0, h.run_at - ${nowMs}) FROM ${tables.history} h
        WHERE h.namespace = ? AND h.id IN (?)`,
    [namespace, ids, namespace, ids],
  )
  return new Map(rows.map(({ id, state, due_in_ms }) => [id, { state, dueInMs: Number(due_in_ms) }]))
}
