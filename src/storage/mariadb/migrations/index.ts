import type { Migration } from '../../migration-plan.ts'
import { jobDetails } from './baseline-job-details.ts'
import { jobs } from './baseline-jobs.ts'
import { locks } from './baseline-locks.ts'
import { monitor } from './baseline-monitor.ts'
import { server } from './baseline-server.ts'

/** Every step of MariaDB’s schema, in order. The first makes all tables; a released step is never edited. */
export const migrations: readonly Migration[] = [
  {
    number: 1,
    name: 'baseline',
    statements: [...server, ...jobs, ...jobDetails, ...locks, ...monitor],
  },
]
