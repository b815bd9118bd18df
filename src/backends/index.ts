/** What the command line reaches engines by. Libraries come in by `open` and by each engine's own subpath. */
export type { AppliedMigration, MigrationStatus, Migrator } from './backend.ts'
export type { CopyBook, CopyEnd, CopyLook, CopyStep, LiveLease } from './copyend.ts'
export { keyOf } from './copyshape.ts'
export { type CopyNumbers, type CopyRow, type CopyTable, copyGroups, copyTables } from './copytables.ts'
export { copyMark } from './migrate.ts'
export { openMigrator } from './migrators.ts'
export { openCopyEnd } from './opencopyend.ts'
