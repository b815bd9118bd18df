import type { QueueLimits } from '../../../jobs/index.ts'
import { countsUntil } from '../../sql/limit-claim.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Pauses and limits queues. A queue that is neither paused nor limited has no row. A claim from a queue with limits
 * locks the row, so these statements may wait for a claim. Running jobs are counted from their rows.
 */
const controlStatements = perSchema((s) => {
  const named = (name: string, text: string): Statement => ({ name: `sb_queue_${name}`, text })
  return {
    pause: named(
      'pause',
      `
INSERT INTO ${s}.queue_control (namespace, queue, paused_at) VALUES ($1, $2, ${nowMs})
ON CONFLICT (namespace, queue) DO UPDATE SET paused_at = coalesce(queue_control.paused_at, excluded.paused_at)`,
    ),
    resume: named(
      'resume',
      `UPDATE ${s}.queue_control SET paused_at = NULL WHERE namespace = $1 AND queue = $2`,
    ),
    // Removes the row of a queue that is neither paused nor limited.
    clear: named(
      'clear',
      `DELETE FROM ${s}.queue_control WHERE namespace = $1 AND queue = $2 AND paused_at IS NULL AND limits IS NULL`,
    ),
    limit: named(
      'limit',
      `
INSERT INTO ${s}.queue_control (namespace, queue, limits) VALUES ($1, $2, $3)
ON CONFLICT (namespace, queue) DO UPDATE SET limits = excluded.limits`,
    ),
    unlimit: named(
      'unlimit',
      `UPDATE ${s}.queue_control SET limits = NULL, key_position = NULL WHERE namespace = $1 AND queue = $2`,
    ),
    dropStarts: named('drop_starts', `DELETE FROM ${s}.job_rate WHERE namespace = $1 AND queue = $2`),
    // Under the new limits, starts may count for longer.
    keepStarts: named(
      'keep_starts',
      `
UPDATE ${s}.job_rate SET expires_at = ${nowMs} + $3::bigint
WHERE namespace = $1 AND queue = $2 AND expires_at < ${nowMs} + $3::bigint`,
    ),
  }
})

export async function pause(scope: Scope, queue: string): Promise<void> {
  await runIn(scope, controlStatements(scope.schemaName).pause, queue)
}

export async function resume(scope: Scope, queue: string): Promise<void> {
  const statements = controlStatements(scope.schemaName)
  await runIn(scope, statements.resume, queue)
  await runIn(scope, statements.clear, queue)
  scope.sender.onCommit(() => scope.positions.forget())
}

/** Sets the limits of a queue; null removes them. */
export async function setLimits(scope: Scope, queue: string, limits: QueueLimits | null): Promise<void> {
  const { limit, unlimit, dropStarts, keepStarts, clear } = controlStatements(scope.schemaName)
  const { sender, namespace, positions } = scope
  await sender.allOrNothingWaiting<unknown>(
    (client) => {
      const send = (statement: Statement, ...values: unknown[]) =>
        sender.send(client, statement, [namespace, queue, ...values])
      if (limits === null) return Promise.all([send(unlimit), send(dropStarts), send(clear)])
      const keptMs = Math.max(countsUntil(limits, 0), countsUntil(limits.perKey, 0))
      return Promise.all([send(limit, JSON.stringify(limits)), send(keepStarts, keptMs)])
    },
    () => true,
  )
  sender.onCommit(() => positions.forget())
}
