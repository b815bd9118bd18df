/**
 * One transaction per job, the user's insert in it: ten handlers at a time on ten connections. Every contestant ends
 * with one payment for each job, or its figure does not count.
 */
import { DatabaseSync } from 'node:sqlite'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { Client, Pool } from 'pg'
import type { OpenOptions } from 'signalbox'
import type { Case, Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { type Engine, groundOf } from './ground.ts'
import { createPlace } from './place.ts'

/** Fills the queue and answers what is timed: working it off, up to the last commit. */
type Prepare = (url: string, numbers: readonly number[]) => Promise<() => Promise<void>>

interface Load {
  readonly quick: number
  readonly full: number
}

export const paid =
  (engine: Engine, load: Load, prepare: () => Promise<Prepare>): Contestant =>
  async (conditions) => {
    const count = conditions.quick ? load.quick : load.full
    const numbers = Array.from({ length: count }, (_, at) => at)
    const prepared = await prepare()
    const timed = async (numbers: readonly number[]): Promise<number> => {
      await using place = await createPlace(conditions, engine)
      await ask(engine, place.url, 'CREATE TABLE payment (order_id BIGINT PRIMARY KEY, amount INT NOT NULL)')
      const work = await prepared(place.url, numbers)
      await place.settleDown()
      const startedAt = performance.now()
      await work()
      const ms = performance.now() - startedAt
      const paidCount = await ask(engine, place.url, 'SELECT COUNT(*) AS count FROM payment')
      if (paidCount !== numbers.length) throw new Error(`${paidCount} payments for ${numbers.length} jobs.`)
      return ms
    }
    // In another store, so that only the process is warm; long enough for that, as a worker runs for days.
    await timed(numbers.slice(0, Math.min(2_000, count / 2)))
    return { rate: (count / (await timed(numbers))) * 1_000 }
  }

/** Runs a statement; answers the column `count` of its first row, when it has one. */
async function ask(engine: Engine, url: string, sql: string): Promise<number> {
  if (engine === 'sqlite') {
    const database = new DatabaseSync(url.replace(/^sqlite:/, ''))
    try {
      return Number(database.prepare(sql).all()[0]?.count)
    } finally {
      database.close()
    }
  }
  if (engine === 'mariadb') {
    const connection = await createConnection(url)
    try {
      const [rows] = await connection.query<RowDataPacket[]>(sql)
      return Number(rows[0]?.count)
    } finally {
      await connection.end()
    }
  }
  const client = new Client(url)
  await client.connect()
  try {
    const { rows } = await client.query(sql)
    return Number(rows[0]?.count)
  } finally {
    await client.end()
  }
}

/** `job.transaction` in every handler; `group` many of them share a commit. `options` are those of the box. */
export const signalboxPays =
  (
    query: string,
    {
      group = 1,
      urlSuffix = '',
      options = {},
    }: { group?: number; urlSuffix?: string; options?: OpenOptions } = {},
  ): (() => Promise<Prepare>) =>
  async () => {
    const { open } = await import('signalbox')
    return async (url, numbers) => {
      const box = await open(`${url}${urlSuffix}`, { migrate: true, ...options })
      for (let from = 0; from < numbers.length; from += 1_000) {
        const piece = numbers.slice(from, from + 1_000)
        await box.jobs.addMany(piece.map((number) => ({ kind: 'pay', payload: { number } })))
      }
      return async () => {
        let left = numbers.length
        const { promise, resolve, reject } = Promise.withResolvers<void>()
        const worker = box.jobs.worker({
          // A group can only be as large as what runs at once, and while one commits the next is at work: two of the
          // ten connections do the work of all.
          concurrency: group > 1 ? group * 2 : 10,
          handlers: {
            pay: {
              group,
              async run(job) {
                try {
                  await job.transaction((tx) => tx.query(query, [job.payload.number]).then(() => undefined))
                } catch (error) {
                  reject(error as Error)
                }
                if (--left === 0) resolve()
              },
            },
          },
        })
        await worker.start()
        await promise
        await worker.stop()
        await box.close()
      }
    }
  }

/**
 * pg-boss's transactional workers. A batch of one never fetches on without a poll, so its smallest batch that drains
 * is two jobs to a transaction, which is in its favour.
 */
const pgBossPays = async (): Promise<Prepare> => {
  const { bossAddMany, bossIsEmpty, openBoss, queue } = await import('./pg-boss.ts')
  return async (url, numbers) => {
    const boss = await openBoss(url, 10)
    for (let from = 0; from < numbers.length; from += 1_000) {
      await bossAddMany(boss, numbers.slice(from, from + 1_000))
    }
    const pool = new Pool({ connectionString: url, max: 1 })
    return async () => {
      let left = numbers.length
      const { promise, resolve } = Promise.withResolvers<void>()
      await boss.work(
        queue,
        { transactional: true, batchSize: 2, localConcurrency: 10, burstWhenBatchFull: true },
        async (jobs: { data: { number: number } }[], tx) => {
          for (const job of jobs) {
            await tx.executeSql('INSERT INTO payment (order_id, amount) VALUES ($1, 100)', [job.data.number])
          }
          left -= jobs.length
          if (left === 0) resolve()
        },
      )
      await promise
      while (!(await bossIsEmpty(pool))) await new Promise((wake) => setTimeout(wake, 1))
      await boss.stop({ graceful: false })
      await pool.end()
    }
  }
}

const rate = { unit: 'jobs/s', better: 'higher', figure: 'rate' } as const satisfies Partial<Case>
export const payPostgres = 'INSERT INTO payment (order_id, amount) VALUES ($1, 100)'
const payElsewhere = 'INSERT INTO payment (order_id, amount) VALUES (?, 100)'
export const oneByOne: Load = { quick: 3_000, full: 8_000 }
export const tenConnections = { urlSuffix: '?pool=10' }
const raw = () => import('./raw/raw-transaction.ts')

export const transactionTrials: readonly Trial[] = [
  {
    name: 'transaction',
    open: groundOf('postgres'),
    contestants: {
      signalbox: paid('postgres', oneByOne, signalboxPays(payPostgres, tenConnections)),
      'pg-boss': paid('postgres', { quick: 800, full: 2_000 }, pgBossPays),
      limit: paid('postgres', oneByOne, async () => (await raw()).rawPostgresTransactions),
    },
    cases: [
      { ...rate, name: 'transaction', peers: ['pg-boss'], goal: atLeastTimes(2.5, 'pg-boss') },
      {
        ...rate,
        name: 'transaction-to-limit',
        peers: [],
        goal: atLeastTimes(0.75, 'limit', 'the plain loop of four round trips'),
      },
    ],
  },
  {
    name: 'transaction-grouped',
    open: groundOf('postgres'),
    contestants: {
      signalbox: paid('postgres', oneByOne, signalboxPays(payPostgres, { ...tenConnections, group: 50 })),
      'one by one': paid('postgres', oneByOne, signalboxPays(payPostgres, tenConnections)),
    },
    cases: [
      {
        ...rate,
        name: 'transaction-grouped',
        peers: ['one by one'],
        goal: atLeastTimes(1.5, 'one by one', 'Signalbox, ungrouped'),
      },
    ],
  },
  {
    name: 'transaction-sqlite',
    open: groundOf('sqlite'),
    contestants: {
      signalbox: paid('sqlite', oneByOne, signalboxPays(payElsewhere)),
      limit: paid('sqlite', oneByOne, async () => {
        const { rawSqliteTransactions } = await raw()
        return (url, numbers) => rawSqliteTransactions(url, numbers, 'FULL')
      }),
    },
    cases: [
      { ...rate, name: 'transaction-sqlite', peers: [], goal: atLeastTimes(0.65, 'limit', 'both FULL') },
    ],
  },
  {
    name: 'transaction-sqlite-normal',
    open: groundOf('sqlite'),
    contestants: {
      signalbox: paid('sqlite', oneByOne, signalboxPays(payElsewhere, { urlSuffix: '?synchronous=normal' })),
      limit: paid('sqlite', oneByOne, async () => {
        const { rawSqliteTransactions } = await raw()
        return (url, numbers) => rawSqliteTransactions(url, numbers, 'NORMAL')
      }),
    },
    cases: [{ ...rate, name: 'transaction-sqlite-normal', peers: [], goal: atLeastTimes(0.5, 'limit') }],
  },
  {
    name: 'transaction-mariadb',
    open: groundOf('mariadb'),
    contestants: {
      signalbox: paid('mariadb', { quick: 2_000, full: 4_000 }, signalboxPays(payElsewhere, tenConnections)),
      limit: paid('mariadb', { quick: 2_000, full: 4_000 }, async () => (await raw()).rawMariadbTransactions),
    },
    cases: [{ ...rate, name: 'transaction-mariadb', peers: [], goal: atLeastTimes(0.8, 'limit') }],
  },
]
