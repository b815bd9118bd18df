/** Every step of the MariaDB schema, in order. */
import type { Migration } from '../../migrate.ts'
import { jobsMigration } from './001-jobs.ts'

export const migrations: readonly Migration[] = [jobsMigration]
