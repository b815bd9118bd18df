import type { Migration } from '../../migration-plan.ts'

/**
 * Lists by id of ended jobs that are rare among very many: those that were cancelled, and those of our own queues. There
 * are no partial indexes, so every job that ends has an entry; each is the last of its state and queue, and what it costs
 * could not be told from none in the time of claim and ack together.
 *
 * It is built while others write: a second or two for 300,000 rows.
 */
export const listsMigration: Migration = {
  number: 10,
  name: 'lists',
  // An index alone: the release before works on it as ever.
  oldest: 9,
  statements: [
    'ALTER TABLE job_history ADD KEY IF NOT EXISTS job_history_list (namespace, state, queue, id)',
  ],
}
