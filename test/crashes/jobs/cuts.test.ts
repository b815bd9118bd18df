import { crashTest } from '../engines.ts'
import { cutConnections, freezeConnections } from './cuts.ts'

crashTest(['postgres', 'mariadb'], 'a COMMIT that is cut off takes effect once or not at all', (ground) =>
  cutConnections(ground, { seed: 1, jobs: 200, commitCuts: 25, otherCuts: 5 }),
)

crashTest(
  ['postgres', 'mariadb'],
  'workers recover after a connection that was silent for three leases',
  (ground) => freezeConnections(ground, { seed: 1, jobs: 40, freezes: 1 }),
)
