import { guardThroughKills } from '../../crashes/once/guarding.ts'
import type { Campaign } from '../campaign.ts'
import { onLockEngines } from './locks-grounds.ts'

/** The guarding test of test/crashes at full size, on every store that keeps guards. */
export const onceGuarding: Campaign = {
  name: 'once-guarding',
  module: 'once',
  description: 'kills claimers with -9 and checks that no key runs that another claimer runs or has done',
  run: (request) =>
    onLockEngines(request, (ground, seed) => guardThroughKills(ground, { seed, claimers: 5, kills: 25 })),
}
