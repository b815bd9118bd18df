/** The exports for the command line. Libraries import `open`, or the subpath of an engine. */
export type { AppliedMigration, MigrationStatus, Migrator } from './backend.ts'
export {
  type CopyNumbers,
  type CopyRow,
  type CopyTable,
  copyGroups,
  copyTables,
  keyOf,
} from './copy-tables.ts'
export { beforeBaseline, copyMark } from './migration-plan.ts'
export { openCopyEnd, openMigrator } from './open.ts'
export type { CopyEnd, CopySnapshot, CopyStep, LiveLease, UnfinishedCopy } from './sql/copy/copy.ts'
