/** Every step of the MariaDB schema, in order. */
import type { Migration } from '../../migrate.ts'
import { jobsMigration } from './001-jobs.ts'
import { accessMigration } from './002-access.ts'
import { locksMigration } from './003-locks.ts'

export const migrations: readonly Migration[] = [jobsMigration, accessMigration, locksMigration]
