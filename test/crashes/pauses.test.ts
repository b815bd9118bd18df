import { ackFirst } from './ackfirst.ts'
import { crashTest } from './engines.ts'
import { pauseWorkers } from './pauses.ts'

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'a worker stopped past its lease writes nothing when it wakes',
  (ground) => pauseWorkers(ground, { seed: 1, pauses: 3, jobs: 45 }),
)

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'who acks first and commits three leases later is done once',
  (ground) => ackFirst(ground, { seed: 1, jobs: ground.engine === 'sqlite' ? 2 : 4 }),
)
