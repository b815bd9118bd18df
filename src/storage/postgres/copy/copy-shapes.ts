import { type CopyShapes, fleetKeyCell, queueKeyCell, queueResult } from '../../copy-shape.ts'
import { durableFleet } from '../../copy-tables.ts'
import { decodeLimits } from '../../sql/limit-plan.ts'
import { countsRunning } from '../claim/limit-claimer.ts'

/** How Postgres keeps the rows of a copy, in the schema whose name comes quoted. */
export function postgresShapes(s: string): CopyShapes {
  const line = {
    names: { namespace: 'namespace', operation: null, resource: null },
    read: { namespace: 'l.namespace', operation: 'l.operation', resource: 'l.resource' },
  }
  return {
    job_queue: {
      table: 'job_pending',
      also: [
        {
          table: 'job_unique',
          columns: ['namespace', 'queue', 'unique_key', 'job_id'].map((name) => ({
            name,
            type: 'text' as const,
            isCompared: false,
          })),
          row: (cell) =>
            cell('unique_key') === null
              ? null
              : [cell('namespace'), cell('queue'), cell('unique_key'), cell('id')],
        },
      ],
    },
    queue_control: {
      where: '(t.paused_at IS NOT NULL OR t.limits IS NOT NULL)',
      more: {
        is_counted: (cell) => {
          const limits = decodeLimits(cell('limits'))
          return limits !== undefined && countsRunning(limits) ? '1' : '0'
        },
      },
    },
    fleet_row: {
      where: `t.doc IS NOT NULL AND t.${durableFleet}`,
      more: { key_hash: fleetKeyCell },
    },
    lock_queue: {
      names: { is_called: null },
      read: {
        token: 'CASE WHEN t.holder_node IS NOT NULL THEN t.token END',
        is_called: '(t.take_up_by IS NOT NULL)',
      },
      more: {
        queue_key: queueKeyCell,
        grant_from: () => '0',
        due_at: () => '0',
        lease_ends_at: (cell) => (cell('holder_node') === null ? null : '0'),
        take_up_by: (cell) => (cell('is_called') === '1' ? '0' : null),
      },
    },
    lock_waiter: {
      from: `${s}.lock_waiter t JOIN ${s}.lock_queue l ON l.queue_key = t.queue_key`,
      read: { ...line.read, has_deadline: '(t.deadline_at IS NOT NULL)' },
      names: { ...line.names, has_deadline: null },
      more: {
        queue_key: queueKeyCell,
        lease_ends_at: () => '0',
        deadline_at: (cell) => (cell('has_deadline') === '1' ? '0' : null),
        due_at: () => '0',
      },
    },
    lock_outcome: {
      from: `${s}.lock_outcome t JOIN ${s}.lock_queue l ON l.queue_key = t.queue_key
        LEFT JOIN ${s}.lock_result r ON r.queue_key = t.queue_key AND r.revision = t.revision`,
      read: { ...line.read, value: 'r.value' },
      names: { ...line.names, value: null },
      more: { queue_key: queueKeyCell, kept_until: () => '0' },
      also: [queueResult],
    },
  }
}
