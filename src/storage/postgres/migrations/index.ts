import type { Migration } from '../../migration-plan.ts'
import { jobDetails } from './baseline-job-details.ts'
import { jobFunctions } from './baseline-job-functions.ts'
import { jobs } from './baseline-jobs.ts'
import { locks } from './baseline-locks.ts'
import { monitor } from './baseline-monitor.ts'
import { once } from './baseline-once.ts'
import { server } from './baseline-server.ts'

/** Every step for one schema, whose name comes quoted. The first makes all tables; a released step is never edited. */
export function migrationsFor(schema: string): readonly Migration[] {
  const parts = [server, jobs, jobFunctions, jobDetails, locks, once, monitor]
  return [{ number: 1, name: 'baseline', statements: parts.flatMap((part) => part(schema)) }]
}
