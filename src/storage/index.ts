/** What the command line reaches engines by. Libraries come in by `open` and by each engine's own subpath. */
export type { AppliedMigration, MigrationStatus, Migrator } from './backend.ts'
export type { CopyBook, CopyEnd, CopyLook, CopyStep, LiveLease } from './copy-end.ts'
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
