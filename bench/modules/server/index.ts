/** The server, with a bare Fastify as the limit. */
import type { Room } from '../../case.ts'
import { idleTrial } from './idle.ts'
import { addTrial, claimAckTrial } from './requests.ts'
import { startTrial } from './start.ts'

export const serverRoom: Room = {
  name: 'server',
  trials: [addTrial, claimAckTrial, idleTrial, startTrial],
}
