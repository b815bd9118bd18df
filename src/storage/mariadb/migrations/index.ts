import type { Migration } from '../../migration-plan.ts'
import { attempts } from './attempts.ts'
import { jobDetails, jobs } from './baseline-jobs.ts'
import { locks } from './baseline-locks.ts'
import { monitor, server } from './baseline-services.ts'
import { series } from './series.ts'
import { waiting } from './waiting.ts'
import { workers } from './workers.ts'

/** Every step of MariaDB’s schema, in order. The first makes all tables; a released step is never edited. */
export const migrations: readonly Migration[] = [
  {
    number: 1,
    name: 'baseline',
    statements: [...server, ...jobs, ...jobDetails, ...locks, ...monitor],
  },
  { number: 2, name: 'fleet', oldest: 1, statements: [...workers, ...series, ...attempts, ...waiting] },
  // The others count by indexes of their own.
  { number: 3, name: 'counts', oldest: 1, statements: [] },
]
