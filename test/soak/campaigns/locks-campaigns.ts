import { openLocks } from '../../conformance/locks/opening.ts'
import { runLocksWalk } from '../../conformance/locks-walk.ts'
import { killLockServers } from '../../crashes/locks/lock-kills.ts'
import type { Campaign } from '../campaign.ts'
import { onLockEngines } from './locks-grounds.ts'

/** Enough steps that a piece takes seconds, few enough that its replay does too. */
const steps = 400

/** Random steps on an engine and on the memory model; what they answer and what they show must never differ. */
export const locksWalk: Campaign = {
  name: 'locks-walk',
  module: 'locks',
  description: 'runs the same random steps on the wait queues of each engine and of the memory model',
  run: (request) =>
    onLockEngines(request, async ({ engine, url, namespace }, seed) => {
      const open = () => openLocks(url, namespace)
      const counts = await runLocksWalk({ open, title: engine, seed, steps })
      return { steps: Object.values(counts).reduce((sum, count) => sum + count, 0) }
    }),
}

/**
 * The histories of test/crashes at full size. A seed gives the plan (requests, kills and their times); the operating
 * system makes each run different, so a failure may need its seed several times.
 */
export const locksHistories: Campaign = {
  name: 'locks-histories',
  module: 'locks',
  description: 'kills servers of locks under ten clients and looks for an order that explains all answers',
  run: (request) =>
    onLockEngines(request, async (ground, seed) => {
      const { kills, cuts, operations, looks, grants, unanswered } = await killLockServers(ground, {
        seed,
        operations: 4_000,
        kills: 25,
      })
      return { kills, cuts, operations, looks, grants, unanswered } as Record<string, number>
    }),
}
