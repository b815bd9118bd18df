import { crashTest } from '../engines.ts'
import { flowThroughKills } from './flowing.ts'

// `npm run soak` runs it on MariaDB as well, and longer.
crashTest(
  ['sqlite', 'postgres'],
  'jobs with dependencies or locks run once and in order while their processes are killed with -9',
  (ground) => flowThroughKills(ground, { seed: 1, members: 4, kills: 3, flows: 3, locked: 6 }),
)
