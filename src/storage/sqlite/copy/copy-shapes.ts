import type { CopyShapes } from '../../copy-shape.ts'
import { durableFleet } from '../../copy-tables.ts'
import { limitKeyOf } from '../../sql/limit-key.ts'

/** How SQLite keeps the rows of a copy. Lines have a number here, which rows beside them are found by. */
export const sqliteShapes: CopyShapes = {
  job_queue: {
    more: {
      limit_key: (cell) => limitKeyOf(cell('meta')),
      lease_no: (_, { leaseNo }) => String(leaseNo),
    },
  },
  job_history: {
    more: { lease_no: (_, { leaseNo }) => String(leaseNo), settled_tokens: () => '' },
  },
  queue_control: { where: '(t.paused_at IS NOT NULL OR t.limits IS NOT NULL)' },
  fleet_row: { where: `t.doc IS NOT NULL AND t.${durableFleet}` },
  lock_queue: {
    names: { is_called: null },
    read: {
      token: 'CASE WHEN t.holder_node IS NOT NULL THEN t.token END',
      is_called: 't.take_up_by IS NOT NULL',
    },
    more: {
      grant_from: () => '0',
      due_at: () => '0',
      lease_ends_at: (cell) => (cell('holder_node') === null ? null : '0'),
      take_up_by: (cell) => (cell('is_called') === '1' ? '0' : null),
      outcome_count: () => '0',
    },
  },
  lock_waiter: {
    from: 'lock_waiter t JOIN lock_queue l ON l.queue_id = t.queue_id',
    read: {
      namespace: 'l.namespace',
      operation: 'l.operation',
      resource: 'l.resource',
      has_deadline: 't.deadline_at IS NOT NULL',
    },
    names: { namespace: null, operation: null, resource: null, has_deadline: null },
    more: {
      lease_ends_at: () => '0',
      deadline_at: (cell) => (cell('has_deadline') === '1' ? '0' : null),
    },
  },
  lock_outcome: {
    from: 'lock_outcome t JOIN lock_queue l ON l.queue_id = t.queue_id',
    read: { namespace: 'l.namespace', operation: 'l.operation', resource: 'l.resource' },
    names: { namespace: null, operation: null, resource: null },
    more: { kept_until: () => '0' },
  },
}

/** The tables whose rows belong to a wait queue. */
export const besideLines: readonly string[] = ['lock_waiter', 'lock_outcome']
