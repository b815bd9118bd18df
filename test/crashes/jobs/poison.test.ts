import { crashTest } from '../engines.ts'
import { poisonWorkers } from './poison.ts'

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'a job that kills its worker ends dead after maxAttempts',
  (ground) => poisonWorkers(ground, { seed: 1, poisons: 2, jobs: 20 }),
)
