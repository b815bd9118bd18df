import { crashTest } from '../engines.ts'
import { killWorkers } from './kills.ts'

crashTest(
  ['sqlite', 'postgres', 'mariadb'],
  'workers killed with -9 lose nothing and repeat nothing',
  (ground) => killWorkers(ground, { seed: 1, kills: 10, jobs: 200 }),
)

crashTest(['sqlite', 'postgres', 'mariadb'], 'two processes with the same worker name stay apart', (ground) =>
  killWorkers(ground, { seed: 2, kills: 4, jobs: 80, sameName: true }),
)
