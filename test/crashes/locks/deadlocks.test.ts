import { crashTest } from '../engines.ts'
import { shareFile } from '../jobs/busy.ts'
import { tangleRows } from './deadlocks.ts'

crashTest(['postgres', 'mariadb'], 'a deadlock or a lock wait leaves nothing half committed', (ground) =>
  tangleRows(ground, { seed: 1, jobs: 60 }),
)

crashTest(['sqlite'], 'processes that hold the file delay others and break nothing', (ground) =>
  shareFile(ground, { seed: 1, jobs: 80, rounds: 6 }),
)
