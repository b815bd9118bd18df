/** Every step of the schema, in order; a released one is never edited. */
import type { Migration } from '../../migrate.ts'
import { jobs } from './0001-jobs.ts'

/** The steps for one schema, whose name comes quoted. */
export function migrationsFor(schema: string): readonly Migration[] {
  return [jobs(schema)]
}
