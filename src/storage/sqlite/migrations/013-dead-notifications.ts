import type { Migration } from '../../migration-plan.ts'

/** Counts dead notifications by subscription from an index alone, however many others there are. */
export const deadNotifications: Migration = {
  number: 13,
  name: 'dead notifications',
  // An index alone: the release before works on it as ever.
  oldest: 9,
  statements: [
    `CREATE INDEX monitor_notification_dead ON monitor_notification (namespace, subscription_id, finished_at)
      WHERE status = 'dead'`,
  ],
}
