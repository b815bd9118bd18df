/**
 * Single adds, each on disk when it answers: one caller that waits for each answer, and fifty callers at once. The limit is
 * the same row written by one plain statement on one connection for each caller.
 */
import { Pool } from 'pg'
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes, type Goal } from '../../goal.ts'
import { groundOf } from './ground.ts'
import type { Lane } from './lane.ts'
import { type LaneName, lanes } from './lanes.ts'
import { createPlace } from './place.ts'
import { rawIds } from './raw/raw-postgres.ts'

type Add = (number: number) => Promise<unknown>

/** The rate of `count` adds by this many callers, after a tenth of them to warm up. */
async function measureAdds(add: Add, callers: number, count: number): Promise<number> {
  const run = async (many: number) => {
    let left = many
    await Promise.all(
      Array.from({ length: callers }, async () => {
        while (left-- > 0) await add(left)
      }),
    )
  }
  await run(Math.max(callers, count / 10))
  const startedAt = performance.now()
  await run(count)
  return (count / (performance.now() - startedAt)) * 1_000
}

const added =
  (name: LaneName, callers: number, count: number): Contestant =>
  async (conditions) => {
    const { engine, load } = lanes[name]
    await using place = await createPlace(conditions, engine)
    await using lane: Lane = await (await load())(place.url)
    return {
      rate: await measureAdds((number) => lane.add(number), callers, conditions.quick ? count / 4 : count),
    }
  }

const rawAdd = `
INSERT INTO raw_job (id, queue, kind, payload, state, run_at, created_at)
VALUES ($1, 'default', 'noop', $2, 'ready', $3, $3)`

const raw =
  (callers: number, count: number): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, 'postgres')
    const pool = new Pool({ connectionString: place.url, max: callers })
    try {
      await pool.query(`
        CREATE TABLE raw_job (id text COLLATE "C" PRIMARY KEY, queue text COLLATE "C" NOT NULL, kind text NOT NULL,
          payload text NOT NULL, state text NOT NULL, run_at bigint NOT NULL, created_at bigint NOT NULL);
        CREATE INDEX ON raw_job (queue, run_at, id) WHERE state = 'ready'`)
      const add: Add = (number) =>
        pool.query({
          name: 'add',
          text: rawAdd,
          values: [rawIds(1)[0], JSON.stringify({ number }), Date.now()],
        })
      return { rate: await measureAdds(add, callers, conditions.quick ? count / 4 : count) }
    } finally {
      await pool.end()
    }
  }

/** The peers make a commit for each add, so fifty callers of theirs get fewer adds to measure. */
function addTrial(callers: number, own: number, theirs: number, goal: Goal): Trial {
  const name = `add-${callers}`
  const peers = ['graphile-worker', 'pg-boss', 'BullMQ on Postgres']
  return {
    name,
    open: groundOf('postgres'),
    contestants: {
      signalbox: added('signalbox', callers, own),
      'graphile-worker': added('graphile-worker tuned', callers, theirs),
      'pg-boss': added('pg-boss tuned', callers, theirs),
      'BullMQ on Postgres': added('BullMQ on Postgres', callers, theirs),
      limit: raw(callers, theirs),
    },
    cases: [{ name, unit: 'adds/s', better: 'higher', figure: 'rate', peers, goal }],
  }
}

const onSqlite =
  (thread: boolean): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, 'sqlite')
    await using box = await open(place.url, { migrate: true, thread })
    const add: Add = (number) => box.jobs.add('noop', { number })
    return { rate: await measureAdds(add, 1, conditions.quick ? 2_000 : 8_000) }
  }

const threadTrial: Trial = {
  name: 'add-sqlite-thread',
  open: groundOf('sqlite'),
  contestants: { signalbox: onSqlite(true), direct: onSqlite(false) },
  cases: [
    {
      name: 'add-sqlite-thread',
      unit: 'adds/s, 1 caller, writer thread',
      better: 'higher',
      figure: 'rate',
      peers: ['direct'],
      goal: atLeastTimes(0.7, 'direct', 'without the thread'),
    },
  ],
}

export const addTrials: readonly Trial[] = [
  addTrial(1, 6_000, 4_000, atLeastTimes(1.5, 'best peer')),
  addTrial(50, 100_000, 8_000, atLeastTimes(10, 'best peer')),
  threadTrial,
]
