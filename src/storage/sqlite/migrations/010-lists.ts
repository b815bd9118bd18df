import type { Migration } from '../../migration-plan.ts'
import { isOwn } from '../../own-queue.ts'

/** Lists of our own queues, by id. Jobs of all other queues have no entry here, and cost no more than before. */
export const lists: Migration = {
  number: 10,
  name: 'lists',
  // Indexes alone: the release before works on it as ever.
  oldest: 9,
  statements: [
    `CREATE INDEX job_queue_own ON job_queue (namespace, queue, id) WHERE ${isOwn('queue')}`,
    `CREATE INDEX job_history_own ON job_history (namespace, queue, id) WHERE ${isOwn('queue')}`,
  ],
}
