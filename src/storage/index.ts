/** What the command line reaches engines by. Libraries come in by `open` and by each engine's own subpath. */
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
export type { CopyBook, CopyEnd, CopyLook, CopyStep, LiveLease } from './sql/copy/copy.ts'
