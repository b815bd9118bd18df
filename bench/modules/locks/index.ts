/**
 * Locks, against redis-semaphore and redlock, with the rawest way to do it as the limit. Pairs are lock + unlock of free
 * keys with 100 callers; a hand-over is the time from giving back a lock that 50 others wait for until the next has it.
 *
 * live-mutex does not take part: its newest release (0.2.25) runs on this Node, but would run a script when it is
 * installed that fetches another from the network into the home folder, and no package here may
 * (test/house/lockfile.test.ts). Tried by hand in a busy moment it made 2,700 to 4,700 pairs a second.
 */
import type { BenchModule, Contestant, Trial } from '../../case.ts'
import { atLeast, atLeastTimes, atMost } from '../../goal.ts'
import { groundOf, groundUrl } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { crowdTrial, tellTrial } from './crowds.ts'
import { httpTrial } from './http.ts'
import { type LockLane, measureHandOver, measurePairs } from './lane.ts'
import { redlockLane, semaphoreLane, signalboxLane } from './lanes.ts'
import { rawRedis, rawSqlite } from './raw.ts'

const waiters = 50

type OpenLane = (conditions: Parameters<Contestant>[0]) => Promise<LockLane>

const onRedis: OpenLane = (conditions) => signalboxLane('memory:', groundUrl(conditions, 'redis'))
const onSemaphore: OpenLane = (conditions) => semaphoreLane(groundUrl(conditions, 'redis'))
const onRedlock: OpenLane = (conditions) => redlockLane(groundUrl(conditions, 'redis'))

function pairs(openLane: OpenLane, callers: number, count: number): Contestant {
  return async (conditions) => {
    await using lane = await openLane(conditions)
    // Awaited here: the lane is closed when this returns.
    return await measurePairs(lane, callers, conditions.quick ? count / 4 : count)
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
  return await measurePairs(lane, 100, conditions.quick ? 20_000 : 60_000)
}

/** On Postgres a lane makes its tables in a separate database, which is dropped when the lane closes. */
const onPostgres: OpenLane = async (conditions) => {
  const place = await createPlace(conditions, 'postgres')
  const lane = await signalboxLane(place.url)
  return {
    pair: lane.pair,
    hold: lane.hold,
    async [Symbol.asyncDispose]() {
      await lane[Symbol.asyncDispose]()
      await place[Symbol.asyncDispose]()
    },
  }
}

const redisPeers = ['redis-semaphore', 'redlock'] as const
const perSecond = { unit: 'pairs/s', better: 'higher', figure: 'rate' } as const

const redisTrial: Trial = {
  name: 'pairs-redis',
  open: groundOf('redis'),
  contestants: {
    signalbox: pairs(onRedis, 100, 60_000),
    'redis-semaphore': pairs(onSemaphore, 100, 40_000),
    redlock: pairs(onRedlock, 100, 40_000),
    limit: rawRedis,
  },
  cases: [
    { ...perSecond, name: 'pairs-redis', peers: redisPeers, goal: atLeastTimes(1.1, 'redlock') },
    {
      name: 'pairs-redis-p99',
      unit: 'ms, 100 callers',
      better: 'lower',
      figure: 'p99',
      peers: redisPeers,
      goal: atMost(8),
    },
  ],
}

const redisAloneTrial: Trial = {
  name: 'pairs-redis-alone',
  open: groundOf('redis'),
  contestants: {
    signalbox: pairs(onRedis, 1, 12_000),
    'redis-semaphore': pairs(onSemaphore, 1, 12_000),
    redlock: pairs(onRedlock, 1, 12_000),
  },
  cases: [
    {
      ...perSecond,
      name: 'pairs-redis-alone',
      unit: 'pairs/s, 1 caller',
      peers: redisPeers,
      goal: atLeastTimes(0.9, 'redlock', 'which is neither fair nor fenced'),
    },
  ],
}

const postgresTrial: Trial = {
  name: 'pairs-postgres',
  open: groundOf('postgres'),
  contestants: { signalbox: pairs(onPostgres, 100, 20_000) },
  cases: [
    { ...perSecond, name: 'pairs-postgres', unit: 'pairs/s, durable', peers: [], goal: atLeast(2_500) },
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
      peers: redisPeers,
      goal: atMost(5),
    },
    {
      name: 'hand-over-p99',
      unit: 'ms, 50 waiting',
      better: 'lower',
      figure: 'p99',
      peers: redisPeers,
      goal: atMost(25),
    },
  ],
}

const postgresHandOverTrial: Trial = {
  name: 'hand-over-postgres',
  open: groundOf('postgres'),
  contestants: { signalbox: handOvers(onPostgres) },
  cases: [
    {
      name: 'hand-over-postgres-p99',
      unit: 'ms, 50 waiting',
      better: 'lower',
      figure: 'p99',
      peers: [],
      goal: atMost(20),
    },
  ],
}

export const locksModule: BenchModule = {
  name: 'locks',
  trials: [
    redisTrial,
    redisAloneTrial,
    sqliteTrial,
    postgresTrial,
    handOverTrial,
    postgresHandOverTrial,
    httpTrial,
    crowdTrial,
    tellTrial,
  ],
}
