import type { Migration } from '../../migration-plan.ts'

/**
 * Which fence a job was last handed out with: a fence is for one claim. The release before does not look at it, and works
 * on as it did.
 */
export const takenFences: Migration = {
  number: 12,
  name: 'taken fences',
  oldest: 9,
  statements: ['ALTER TABLE job_lock ADD COLUMN taken_fence INTEGER'],
}
