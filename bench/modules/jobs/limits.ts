/**
 * What limits cost: the same backlog, of a thousand tenants in turn, worked off with limits for each tenant and without. Both
 * sides carry the keys; only one has the rule. That the ordinary path pays nothing is shown by the other drains.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { drainLane } from './drain.ts'
import { type Engine, groundOf } from './ground.ts'
import { tuned } from './lanes.ts'
import { signalboxLane } from './signalbox.ts'

const keys = 1_000

const drained =
  (engine: Engine, concurrency: number | null): Contestant =>
  (conditions) =>
    drainLane(conditions, engine, signalboxLane(tuned, { keys, concurrency }))

function limitsTrial(engine: Engine, name: string): Trial {
  return {
    name,
    open: groundOf(engine),
    contestants: { signalbox: drained(engine, 2), unlimited: drained(engine, null) },
    cases: [
      {
        name,
        unit: 'jobs/s',
        better: 'higher',
        figure: 'rate',
        peers: ['unlimited'],
        goal: atLeastTimes(0.5, 'unlimited'),
      },
    ],
  }
}

export const limitsTrials: readonly Trial[] = [
  limitsTrial('postgres', 'limits-1000-keys'),
  limitsTrial('mariadb', 'limits-1000-keys-mariadb'),
  limitsTrial('sqlite', 'limits-1000-keys-sqlite'),
]
