import { crashTest } from './engines.ts'
import { limitThroughKills } from './limiting.ts'

// `npm run soak` tells it on MariaDB as well, and longer.
crashTest(
  ['sqlite', 'postgres'],
  'four processes killed with -9 never go past the limits of their queue, and do every job',
  (ground) => limitThroughKills(ground, { seed: 1, members: 4, kills: 3, jobs: 90 }),
)
