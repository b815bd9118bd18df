import type { Migration } from '../../migration-plan.ts'
import { isOwn } from '../../own-queue.ts'

/**
 * Lists by id of what is rare among very many: jobs that wait for others, those that did not end well, and our own queues.
 * The jobs of other queues that are added, claimed and completed have no entry in any of them.
 *
 * Not CONCURRENTLY, which no transaction can hold: a step would be half done when it is killed. Each reads its table once
 * and keeps writers of it waiting meanwhile, a second or less for a million rows.
 */
export function lists(s: string): Migration {
  return {
    number: 10,
    name: 'lists',
    // Indexes alone: the release before works on it as ever.
    oldest: 9,
    statements: [
      `CREATE INDEX job_pending_waiting ON ${s}.job_pending (namespace, id) WHERE state = 'waiting'`,
      `CREATE INDEX job_pending_own ON ${s}.job_pending (namespace, queue, id) WHERE ${isOwn('queue')}`,
      `CREATE INDEX job_history_unfinished ON ${s}.job_history (namespace, state, id) WHERE state <> 'completed'`,
      `CREATE INDEX job_history_own ON ${s}.job_history (namespace, queue, id) WHERE ${isOwn('queue')}`,
    ],
  }
}
