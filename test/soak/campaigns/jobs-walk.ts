import { randomBytes } from 'node:crypto'
import { openBackend } from '../../../src/storage/open.ts'
import { runWalk } from '../../conformance/walk.ts'
import type { Campaign } from '../campaign.ts'
import { allEngines, onEngines } from './jobs-grounds.ts'

/** Enough steps that a piece takes seconds, few enough that its replay does too. */
const steps = 1_000

/** Random operations on an engine and on the memory model; what they answer and what they hold must never differ. */
export const jobsWalk: Campaign = {
  name: 'jobs-walk',
  module: 'jobs',
  description: 'runs the same random operations on each engine and on the memory model, and compares them',
  run: (request) =>
    onEngines(request, allEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      const open = () =>
        openBackend(ground.url, { namespace: `walk-${randomBytes(6).toString('hex')}`, migrate: true })
      const counts = await runWalk({ open, seed, steps })
      return { steps, operations: Object.values(counts).reduce((sum, count) => sum + count, 0) }
    }),
}
