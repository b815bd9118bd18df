import { crashTest } from '../engines.ts'
import { swallowRefusals } from '../swallowed-refusals.ts'
import { ackFirst } from './ack-first.ts'
import { pauseWorkers } from './pauses.ts'

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'a worker stopped past its lease writes nothing when it wakes',
  (ground) => pauseWorkers(ground, { seed: 1, pauses: 3, jobs: 45 }),
)

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'a job that is acked first and committed three leases later is done once',
  (ground) => ackFirst(ground, { seed: 1, jobs: ground.engine === 'sqlite' ? 2 : 4 }),
)

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'rows exist once although a frozen worker swallows its refused ack and commits',
  (ground) => swallowRefusals(ground, { seed: 1, pauses: 3 }),
)
