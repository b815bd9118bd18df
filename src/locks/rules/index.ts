/** The rules of a fair wait queue, for the stores that keep its rows. */
export * from './rule.ts'
export * from './rules.ts'
export * from './wait-queue.ts'
export { excludedBy, groupOf } from './wait-queue-group.ts'
