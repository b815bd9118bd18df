/** The server, with a bare Fastify as the limit. */
import type { BenchModule } from '../../case.ts'
import { idleTrial } from './idle.ts'
import { importTrial } from './import.ts'
import { addTrials, claimAckTrials } from './requests.ts'
import { startTrial } from './start.ts'

export const serverModule: BenchModule = {
  name: 'server',
  trials: [...addTrials, ...claimAckTrials, idleTrial, startTrial, importTrial],
}
