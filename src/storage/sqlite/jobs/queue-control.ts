import type { Moment } from '../connection/connection.ts'

/** The pauses and limits of a namespace's queues, as a claim needs them. */
export interface QueueControls {
  readonly paused: ReadonlySet<string>
  /** The queues with limits that are not paused. */
  readonly limited: ReadonlySet<string>
  /** Whether any ready job has a limit key. If not, claims do not search for such jobs. */
  readonly hasKeyed: boolean
}

/** Reads everything with one statement. The row without a queue shows whether there are jobs with a key. */
export function readControls({ connection, namespace }: Moment): QueueControls {
  const rows = connection.all<{ queue: string | null; paused_at: number | null }>(
    `SELECT queue, paused_at FROM queue_control
     WHERE namespace = ?1 AND (paused_at IS NOT NULL OR limits IS NOT NULL)
     UNION ALL
     SELECT NULL, NULL
     WHERE EXISTS (SELECT 1 FROM job_queue INDEXED BY job_queue_keyed
       WHERE namespace = ?1 AND state = 'ready' AND limit_key IS NOT NULL)`,
    namespace,
  )
  const paused = new Set<string>()
  const limited = new Set<string>()
  let hasKeyed = false
  for (const { queue, paused_at: pausedAt } of rows) {
    if (queue === null) hasKeyed = true
    else if (pausedAt !== null) paused.add(queue)
    else limited.add(queue)
  }
  return { paused, limited, hasKeyed }
}
