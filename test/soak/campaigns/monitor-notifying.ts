import { tellThroughKills } from '../../crashes/monitor/notifying.ts'
import type { Campaign } from '../campaign.ts'
import { allEngines, onEngines } from './jobs-grounds.ts'

/** The telling test of test/crashes at full size. */
export const monitorTelling: Campaign = {
  name: 'monitor-telling',
  room: 'monitor',
  description:
    'kills senders and reporters under a provider that fails, and asks whether people know the truth',
  run: (request) =>
    onEngines(request, allEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      return await tellThroughKills(ground, { seed, reporters: 5, hits: 15, pauseMs: 500 })
    }),
}
