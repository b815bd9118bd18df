import { crashTest } from '../engines.ts'
import { limitThroughKills } from './limiting.ts'

// `npm run soak` runs it on MariaDB as well, and longer.
crashTest(
  ['sqlite', 'postgres'],
  'four processes killed with -9 never exceed the limits of their queue, and run every job',
  (ground) => limitThroughKills(ground, { seed: 1, members: 4, kills: 3, jobs: 90, isRated: true }),
)

// Where only what runs is counted, claims are made another way there.
crashTest(
  ['postgres'],
  'four processes killed with -9 never exceed the limits of a queue without a rate',
  (ground) => limitThroughKills(ground, { seed: 2, members: 4, kills: 4, jobs: 250, isRated: false }),
)
