import type { Migration } from '../../migration-plan.ts'

/**
 * Counts dead notifications by subscription from an index alone, and lists notifications by status. There are no partial
 * indexes, so every notification has an entry.
 */
export const deadNotificationsMigration: Migration = {
  number: 13,
  name: 'dead notifications',
  // An index alone: the release before works on it as ever.
  oldest: 9,
  statements: [
    `ALTER TABLE monitor_notification
  ADD KEY IF NOT EXISTS monitor_notification_status (namespace, status, subscription_id, finished_at)`,
  ],
}
