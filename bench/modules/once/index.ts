/**
 * Guards, with the rawest way to take keys as the limit. `claim-many` is a hundred fresh keys a call: on SQLite in this
 * process, one call after the other; on servers with ten callers. `claim-redis` is one key a call, with a hundred callers.
 */
import type { BenchModule, Case, Conditions, Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { type Engine, groundOf, groundUrl } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { type ClaimLane, type ClaimLoad, measureClaims } from './lane.ts'
import { rawPipeline, rawPostgres, rawScript, rawSqlite } from './raw.ts'
import { signalboxLane } from './signalbox.ts'

const size = 100
const manyOnSqlite: ClaimLoad = { callers: 1, size, calls: 1_000 }
const manyOnPostgres: ClaimLoad = { callers: 10, size, calls: 1_000 }
const manyOnRedis: ClaimLoad = { callers: 10, size, calls: 3_000 }
const single: ClaimLoad = { callers: 100, size: 1, calls: 200_000 }

/** Claims on an empty place of that engine. */
function claims(
  engine: Engine,
  load: ClaimLoad,
  openLane: (url: string, conditions: Conditions) => Promise<ClaimLane>,
): Contestant {
  return async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using lane = await openLane(place.url, conditions)
    const calls = conditions.quick ? load.calls / 5 : load.calls
    return { rate: await measureClaims(lane, { ...load, calls }) }
  }
}

/** The place of Redis is emptied for each measurement; what else a box needs is in memory. */
const onRedis = (_url: string, conditions: Conditions): Promise<ClaimLane> =>
  signalboxLane('memory:', groundUrl(conditions, 'redis'))

const rate = {
  unit: 'claims/s',
  better: 'higher',
  figure: 'rate',
  peers: [],
} as const satisfies Partial<Case>

const trials: readonly Trial[] = [
  {
    name: 'claim-many-redis',
    open: groundOf('redis'),
    contestants: {
      signalbox: claims('redis', manyOnRedis, onRedis),
      limit: claims('redis', manyOnRedis, rawPipeline),
    },
    cases: [{ ...rate, name: 'claim-many-redis', goal: atLeastTimes(0.6, 'limit', 'pipelined SET NX') }],
  },
  {
    name: 'claim-many-sqlite',
    open: groundOf('sqlite'),
    contestants: {
      signalbox: claims('sqlite', manyOnSqlite, (url) => signalboxLane(url)),
      limit: claims('sqlite', manyOnSqlite, (url) => rawSqlite(url, size)),
    },
    cases: [
      {
        ...rate,
        name: 'claim-many-sqlite',
        unit: 'claims/s, durable',
        goal: atLeastTimes(0.6, 'limit', 'multi-row insert'),
      },
    ],
  },
  {
    name: 'claim-many-postgres',
    open: groundOf('postgres'),
    contestants: {
      signalbox: claims('postgres', manyOnPostgres, (url) => signalboxLane(url)),
      limit: claims('postgres', manyOnPostgres, (url) => rawPostgres(url, manyOnPostgres.callers)),
    },
    cases: [
      {
        ...rate,
        name: 'claim-many-postgres',
        unit: 'claims/s, durable',
        goal: atLeastTimes(0.6, 'limit', 'multi-row insert'),
      },
    ],
  },
  {
    name: 'claim-redis',
    open: groundOf('redis'),
    contestants: {
      signalbox: claims('redis', single, onRedis),
      limit: claims('redis', single, rawScript),
    },
    cases: [{ ...rate, name: 'claim-redis', goal: atLeastTimes(0.6, 'limit', 'a script call') }],
  },
]

export const onceModule: BenchModule = { name: 'once', trials }
