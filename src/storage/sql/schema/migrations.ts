import type { Migration } from '../../migration-plan.ts'
import { fleet } from './fleet.ts'
import { jobDetails, jobs } from './jobs.ts'
import { locks } from './locks.ts'
import { monitor, server } from './services.ts'
import { createIndexes, createTables, type SchemaDialect } from './table.ts'

/**
 * Every step of an engine's schema, in order. The first step creates all tables; a released step is never edited.
 * `counts` has the indexes with which the engine counts jobs.
 */
export function createMigrations(
  d: SchemaDialect,
  counts: Readonly<Record<string, string>> = {},
): readonly Migration[] {
  return [
    {
      number: 1,
      name: 'baseline',
      statements: createTables(d, [...server, ...jobs, ...jobDetails, ...locks, ...monitor]),
    },
    {
      number: 2,
      name: 'fleet',
      oldest: 1,
      // Ended jobs by their finish time, for streams that resume. The time comes first, so new entries are appended at
      // the right edge. (A BRIN index would be smaller, but only bitmap scans read it, and connections to Postgres
      // disable these.)
      statements: [
        ...createTables(d, fleet),
        ...createIndexes(d, 'job_history', 'job_history_ended (finished_at)'),
      ],
    },
    {
      number: 3,
      name: 'counts',
      oldest: 1,
      statements: Object.entries(counts).flatMap(([table, indexes]) => createIndexes(d, table, indexes)),
    },
  ]
}
