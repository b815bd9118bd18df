import { keptForRetry } from '../../sql/log-row.ts'
import type { Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'

/** The jobs are begun anew: attempts that leave little room for the next ones are forgotten. */
export function makeRoomForNotes(
  { tables, namespace }: Pick<Store, 'tables' | 'namespace'>,
  jobIds: readonly string[],
): readonly Statement[] {
  const { lineCount, lineBytes } = keptForRetry
  const isFull = `p.namespace = ? AND p.job_id IN (?) AND (p.line_count > ${lineCount} OR p.line_bytes > ${lineBytes})`
  const sameAttempt = 'l.namespace = p.namespace AND l.job_id = p.job_id AND l.attempt = p.attempt'
  return [
    [
      `DELETE l FROM ${tables.progress} p STRAIGHT_JOIN ${tables.log} l ON ${sameAttempt} WHERE ${isFull}`,
      [namespace, jobIds],
    ],
    [`DELETE p FROM ${tables.progress} p WHERE ${isFull}`, [namespace, jobIds]],
  ]
}
