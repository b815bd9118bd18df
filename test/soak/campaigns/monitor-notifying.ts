import { notifyThroughKills } from '../../crashes/monitor/notifying.ts'
import type { Campaign } from '../campaign.ts'
import { allEngines, onEngines } from './jobs-grounds.ts'

/** The notifying test of test/crashes at full size. */
export const monitorNotifying: Campaign = {
  name: 'monitor-notifying',
  module: 'monitor',
  description:
    'kills senders and reporters while a provider fails, and checks that subscribers learn the present state',
  run: (request) =>
    onEngines(request, allEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      return await notifyThroughKills(ground, { seed, reporters: 5, hits: 15, pauseMs: 500 })
    }),
}
