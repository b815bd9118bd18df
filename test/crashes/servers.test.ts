import { serverCrashTest } from './engines.ts'
import { killServer } from './servers.ts'

serverCrashTest('a database killed with -9 keeps confirmed writes, and workers continue', (ground, server) =>
  killServer(ground, server, { seed: 1, kills: 4, jobs: 120 }),
)
