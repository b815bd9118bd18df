/**
 * Locks, against redis-semaphore and redlock, with the rawest way to do it as the limit. Pairs are lock + unlock of free
 * keys with 100 callers; a hand-over is the time from giving back a lock that 50 others wait for until the next has it.
 *
 * live-mutex does not take part: its newest release (0.2.25) runs on this Node, but would run a script when it is
 * installed that fetches another from the network into the home folder, and no package here may
 * (test/house/lockfile.test.ts). Tried by hand in a busy moment it made 2,700 to 4,700 pairs a second.
 */
import type { BenchModule, Contestant, Trial } from '../../case.ts'
import { allOf, atLeastTimes, atMost, atMostTimes } from '../../goal.ts'
import { groundOf, groundUrl } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { crowdTrial, tellTrial } from './crowds.ts'
import { httpTrial } from './http.ts'
import { type LockLane, measureHandOver, measurePairs } from './lane.ts'
import { redlockLane, semaphoreLane, signalboxLane } from './lanes.ts'
import { rawRedis, rawSqlite } from './raw.ts'

const callers = 100
const waiters = 50

type OpenLane = (conditions: Parameters<Contestant>[0]) => Promise<LockLane>

const onRedis: OpenLane = (conditions) => signalboxLane('memory:', groundUrl(conditions, 'redis'))
const onSemaphore: OpenLane = (conditions) => semaphoreLane(groundUrl(conditions, 'redis'))
const onRedlock: OpenLane = (conditions) => redlockLane(groundUrl(conditions, 'redis'))

function pairs(openLane: OpenLane, count: number): Contestant {
  return async (conditions) => {
    await using lane = await openLane(conditions)
    return { rate: await measurePairs(lane, callers, conditions.quick ? count / 4 : count) }
  }
}

function handOvers(openLane: OpenLane): Contestant {
  return async (conditions) => {
    await using lane = await openLane(conditions)
    // Awaited here: the lane is closed when this returns.
    return await measureHandOver(lane, waiters, conditions.quick ? 300 : 1_000)
  }
}

const sqlitePairs: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using lane = await signalboxLane(place.url)
  return { rate: await measurePairs(lane, callers, conditions.quick ? 20_000 : 60_000) }
}

const redisTrial: Trial = {
  name: 'pairs-redis',
  open: groundOf('redis'),
  contestants: {
    signalbox: pairs(onRedis, 60_000),
    'redis-semaphore': pairs(onSemaphore, 40_000),
    redlock: pairs(onRedlock, 40_000),
    limit: rawRedis,
  },
  cases: [
    {
      name: 'pairs-redis',
      unit: 'pairs/s',
      better: 'higher',
      figure: 'rate',
      peers: ['redis-semaphore', 'redlock'],
      goal: allOf(atLeastTimes(2, 'best peer'), atLeastTimes(0.6, 'limit')),
    },
  ],
}

const sqliteTrial: Trial = {
  name: 'pairs-sqlite',
  open: groundOf('sqlite'),
  contestants: { signalbox: sqlitePairs, limit: rawSqlite },
  cases: [
    {
      name: 'pairs-sqlite',
      unit: 'pairs/s, durable',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: atLeastTimes(0.3, 'limit', 'commits of 100'),
    },
  ],
}

const handOverTrial: Trial = {
  name: 'hand-over',
  open: groundOf('redis'),
  contestants: {
    signalbox: handOvers(onRedis),
    'redis-semaphore': handOvers(onSemaphore),
    redlock: handOvers(onRedlock),
  },
  cases: [
    {
      name: 'hand-over-p50',
      unit: 'ms, 50 waiting',
      better: 'lower',
      figure: 'p50',
      peers: ['redis-semaphore', 'redlock'],
      goal: allOf(atMost(5), atMostTimes(0.2, 'best peer')),
    },
    {
      name: 'hand-over-p99',
      unit: 'ms, 50 waiting',
      better: 'lower',
      figure: 'p99',
      peers: ['redis-semaphore', 'redlock'],
      goal: allOf(atMost(25), atMostTimes(0.2, 'best peer')),
    },
  ],
}

export const locksModule: BenchModule = {
  name: 'locks',
  trials: [redisTrial, sqliteTrial, handOverTrial, httpTrial, crowdTrial, tellTrial],
}
