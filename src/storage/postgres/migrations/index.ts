import type { Migration } from '../../migration-plan.ts'
import { attempts } from './attempts.ts'
import { jobDetails, jobs } from './baseline-jobs.ts'
import { locks } from './baseline-locks.ts'
import { monitor, once, server } from './baseline-services.ts'
import { counts } from './counts.ts'
import { series } from './series.ts'
import { waiting } from './waiting.ts'
import { workers } from './workers.ts'

/** Every step for one schema, whose name comes quoted. The first makes all tables; a released step is never edited. */
export function migrationsFor(schema: string): readonly Migration[] {
  const baseline = [server, jobs, jobDetails, locks, once, monitor]
  const fleet = [workers, series, attempts, waiting]
  return [
    { number: 1, name: 'baseline', statements: baseline.flatMap((part) => part(schema)) },
    { number: 2, name: 'fleet', oldest: 1, statements: fleet.flatMap((part) => part(schema)) },
    { number: 3, name: 'counts', oldest: 1, statements: counts(schema) },
  ]
}
