import { type CopyShapes, fleetKeyCell, queueKeyCell, queueResult } from '../../copy-shape.ts'
import { durableFleet } from '../../copy-tables.ts'

const line = {
  names: { namespace: 'namespace', operation: null, resource: null },
  read: { namespace: 'l.namespace', operation: 'l.operation', resource: 'l.resource' },
}

/** How MariaDB keeps the rows of a copy, in the connection's own database. */
export const mariadbShapes: CopyShapes = {
  job_queue: { more: { lease_no: (_, { leaseNo }) => String(leaseNo) } },
  job_history: {
    more: { lease_no: (_, { leaseNo }) => String(leaseNo) },
    also: [
      {
        table: 'job_dead',
        columns: ['namespace', 'queue', 'id', 'kind'].map((name) => ({
          name,
          type: 'text' as const,
          isCompared: false,
        })),
        row: (cell) =>
          cell('state') === 'dead' ? [cell('namespace'), cell('queue'), cell('id'), cell('kind')] : null,
      },
    ],
  },
  queue_control: { where: '(t.paused_at IS NOT NULL OR t.limits IS NOT NULL)' },
  job_rate: {
    names: { expires_at: 'started_at' },
    from: 'job_rate t LEFT JOIN queue_control c ON c.namespace = t.namespace AND c.queue = t.queue',
    // When the last of them started, and how long that may count.
    read: {
      expires_at: `t.started_at + 2 * GREATEST(COALESCE(JSON_VALUE(c.limits, '$.rate.perMs'), 0),
        COALESCE(JSON_VALUE(c.limits, '$.perKey.rate.perMs'), 0))`,
    },
  },
  request_key: { names: { key: '`key`' } },
  fleet_row: { where: `t.doc IS NOT NULL AND t.${durableFleet}`, more: { key_hash: fleetKeyCell } },
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
    from: 'lock_waiter t JOIN lock_queue l ON l.queue_key = t.queue_key',
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
    from: `lock_outcome t JOIN lock_queue l ON l.queue_key = t.queue_key
      LEFT JOIN lock_result r ON r.queue_key = t.queue_key AND r.revision = t.revision`,
    read: { ...line.read, value: 'r.value' },
    names: { ...line.names, value: null },
    more: { queue_key: queueKeyCell, kept_until: () => '0' },
    also: [queueResult],
  },
}
