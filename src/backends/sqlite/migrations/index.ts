import type { Migration } from '../../migrate.ts'
import { jobs } from './001-jobs.ts'

/** Every step of SQLite's schema, in order. */
export const migrations: readonly Migration[] = [jobs]
