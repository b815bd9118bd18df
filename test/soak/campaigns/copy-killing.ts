import { copyThroughKills } from '../../crashes/copy/copy-killing.ts'
import type { Campaign } from '../campaign.ts'
import { onEngines, serverEngines } from './jobs-grounds.ts'

/** The copy test of test/crashes with 200,000 jobs, and pages as large as they are. */
export const copyKilling: Campaign = {
  name: 'copy-killing',
  module: 'copy',
  description: 'kills a copy of 200,000 jobs from SQLite, and checks that both sides are equal',
  run: (request) =>
    onEngines(request, serverEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      return await copyThroughKills(ground, { seed, jobs: 200_000, kills: 8, pageRows: 5_000 })
    }),
}
