import { killDispatch } from '../../crashes/dispatch/dispatch-killing.ts'
import type { Campaign } from '../campaign.ts'
import { allEngines, onEngines } from './jobs-grounds.ts'

/** The killing test of test/crashes at full size, with the tasks on every engine in turn. */
export const dispatchKilling: Campaign = {
  name: 'dispatch-killing',
  module: 'dispatch',
  description:
    'kills servers, nodes and Redis under tasks, and checks that each ends once and no node exceeds its slots',
  run: (request) =>
    onEngines(request, allEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      // Every other time Redis loses all that it had.
      const forgets = seed % 2 === 1
      return await killDispatch(ground, { seed, nodes: 8, kills: 25, repeats: !forgets, forgets })
    }),
}
