/** What the command line reaches engines by. Libraries come in by `open` and by each engine's own subpath. */
export type { AppliedMigration, MigrationStatus, Migrator } from './backend.ts'
export type { CopyBook, CopyEnd, CopyLook, CopyStep, LiveLease } from './copy-end.ts'
export { keyOf } from './copy-shape.ts'
export { type CopyNumbers, type CopyRow, type CopyTable, copyGroups, copyTables } from './copy-tables.ts'
export { beforeBaseline, copyMark } from './migration-plan.ts'
export { openMigrator } from './migrators.ts'
export { openCopyEnd } from './open-copy-end.ts'
