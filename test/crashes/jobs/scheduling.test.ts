import { crashTest } from '../engines.ts'
import { scheduleThroughKills } from './scheduling.ts'

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'four boxes killed with -9 and stopped for a while run each slot of their schedules exactly once',
  (ground) => scheduleThroughKills(ground, { seed: 1, members: 4, kills: 3, slots: 7 }),
)
