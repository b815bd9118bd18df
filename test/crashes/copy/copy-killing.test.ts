import { crashTest } from '../engines.ts'
import { copyThroughKills } from './copy-killing.ts'

// `npm run soak` runs it with 200,000 jobs.
crashTest(
  ['postgres'],
  'a copy killed with -9 continues where it was, and both sides are equal by hash',
  (ground) => copyThroughKills(ground, { seed: 1, jobs: 5_000, kills: 3, pageRows: 50 }),
)
