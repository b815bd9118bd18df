/** What the command line reaches engines by. Libraries come in by `open` and by each engine's own subpath. */
export type { AppliedMigration, MigrationStatus, Migrator } from './backend.ts'
export { openMigrator } from './migrators.ts'
