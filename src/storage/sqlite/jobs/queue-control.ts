import type { QueueLimits } from '../../../jobs/index.ts'
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

export function pauseQueue({ connection, namespace }: Moment, queue: string, pausedAt: number | null): void {
  connection.turn.controls.delete(namespace)
  connection.run(
    `INSERT INTO queue_control (namespace, queue, paused_at) VALUES (?1, ?2, ?3)
     ON CONFLICT DO UPDATE SET paused_at = excluded.paused_at`,
    namespace,
    queue,
    pausedAt,
  )
}

/** Sets or removes limits. Removing them deletes the counted starts. */
export function limitQueue(
  { connection, namespace }: Moment,
  queue: string,
  limits: QueueLimits | null,
): void {
  connection.turn.controls.delete(namespace)
  connection.run(
    `INSERT INTO queue_control (namespace, queue, limits) VALUES (?1, ?2, ?3)
     ON CONFLICT DO UPDATE SET limits = excluded.limits, key_position = NULL`,
    namespace,
    queue,
    limits && JSON.stringify(limits),
  )
  if (limits !== null) return
  connection.run('DELETE FROM job_rate WHERE namespace = ?1 AND queue = ?2', namespace, queue)
}
