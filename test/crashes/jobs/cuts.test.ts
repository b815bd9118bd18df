import { crashTest } from '../engines.ts'
import { cutConnections, freezeConnections } from './cuts.ts'

crashTest(['postgres', 'mariadb'], 'a COMMIT that is cut off takes effect once or not at all', (ground) =>
  cutConnections(ground, { seed: 1, jobs: 200, commitCuts: 25, otherCuts: 5 }),
)

crashTest(['postgres', 'mariadb'], 'a wire that is silent for three leases heals unaided', (ground) =>
  freezeConnections(ground, { seed: 1, jobs: 40, freezes: 1 }),
)
