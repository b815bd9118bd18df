import type { Migration } from '../../migrate.ts'
import { jobs } from './001-jobs.ts'
import { access } from './002-access.ts'
import { locks } from './003-locks.ts'

/** Every step of SQLite's schema, in order. */
export const migrations: readonly Migration[] = [jobs, access, locks]
