/**
 * What a claim of ten jobs costs when a million wait and a million are history, against the same with a thousand and
 * none; and what it costs when, on top, a snapshot has been held open for a minute while jobs came and went, so that
 * no dead row of that minute could be cleaned away. Small claims, because they hide nothing: in a large one the rows
 * themselves outweigh finding them.
 *
 * The large database is filled once a trial and used by every round. `--quick` has a tenth of the rows and a twelfth
 * of the minute.
 */
import { Client } from 'pg'
import { type Box, open } from 'signalbox'
import type { JobStore } from 'signalbox/jobs'
import type { Conditions, Contestant, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { median } from '../../summary.ts'
import { groundOf, groundUrl } from './ground.ts'

const few = 1_000
const claimed = 10
const turnoverPerSecond = 5_000

/** A filled database, seen as a user and as the store beneath. */
interface Filled extends AsyncDisposable {
  readonly url: string
  readonly box: Box
  readonly store: JobStore
}

const signalbox: Contestant = async (conditions) => {
  const { quick } = conditions
  const many = quick ? 100_000 : 1_000_000
  await using small = await openFilled(conditions, { ready: few, history: 0 })
  await using large = await openFilled(conditions, { ready: many, history: many })
  const pieces = quick ? 100 : 400

  await inTurns(small, large, 50)
  const plain = await inTurns(small, large, pieces)
  const held = await whileSnapshotHeld(large.url, async () => {
    await turnOver(large, quick ? 5_000 : 60_000)
    return inTurns(small, large, pieces)
  })
  // What the snapshot kept from being cleaned is no business of the next round.
  await ask(large.url, 'VACUUM ANALYZE')
  return {
    growth: median(plain.large) / median(plain.small),
    // A mean, because a claim that looks from the start again now and then must not hide behind the others.
    held: mean(held.large) / mean(held.small),
    heldMedian: median(held.large) / median(held.small),
  }
}

/** The costs on both, a few claims here and a few there, so that what the machine does meanwhile hits both alike. */
async function inTurns(
  small: Filled,
  large: Filled,
  pieces: number,
): Promise<{ small: number[]; large: number[] }> {
  const costs = { small: [] as number[], large: [] as number[] }
  for (let turn = 0; turn < 10; turn++) {
    costs.small.push(...(await costOf(small, pieces / 10)))
    costs.large.push(...(await costOf(large, pieces / 10)))
  }
  return costs
}

/** Milliseconds of each claim. What is claimed is settled and made up for, outside the time. */
async function costOf({ box, store }: Filled, pieces: number): Promise<number[]> {
  const costs: number[] = []
  for (let piece = 0; piece < pieces; piece++) {
    const startedAt = performance.now()
    const jobs = await claim(store, claimed)
    costs.push(performance.now() - startedAt)
    if (jobs.length !== claimed) throw new Error(`A claim of ${claimed} gave ${jobs.length}.`)
    await complete(store, jobs)
    await addMany(box, claimed)
  }
  return costs
}

type Claimed = Awaited<ReturnType<JobStore['claim']>>

function claim(store: JobStore, limit: number): Promise<Claimed> {
  return store.claim({ queues: ['default'], kinds: null, workerId: 'bench', limit, leaseMs: 30_000 })
}

async function complete(store: JobStore, jobs: Claimed): Promise<void> {
  const took = await store.settle(
    jobs.map(({ id, token, attempt, handBackCount, snoozeCount }) => ({
      jobId: id,
      token,
      state: 'completed',
      attempt,
      handBackCount,
      snoozeCount,
      delayMs: 0,
      ranMs: null,
      result: null,
      error: null,
    })),
  )
  if (!took.every(Boolean)) throw new Error('A verdict did not take.')
}

/** Jobs come and go at a steady pace that leaves the backlog as large as it was. */
async function turnOver({ box, store }: Filled, ms: number): Promise<void> {
  const batch = 100
  const startedAt = performance.now()
  for (let count = 0; performance.now() - startedAt < ms; count += batch) {
    const [jobs] = await Promise.all([claim(store, batch), addMany(box, batch)])
    await complete(store, jobs)
    const aheadMs = (count / turnoverPerSecond) * 1_000 - (performance.now() - startedAt)
    if (aheadMs > 1) await new Promise((wake) => setTimeout(wake, aheadMs))
  }
}

async function whileSnapshotHeld<Result>(url: string, work: () => Promise<Result>): Promise<Result> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    // The snapshot is taken by the first statement, not by BEGIN.
    await client.query('SELECT count(*) FROM pg_class')
    return await work()
  } finally {
    await client.end()
  }
}

async function addMany(box: Box, count: number): Promise<void> {
  await box.jobs.addMany(
    Array.from({ length: count }, (_, number) => ({ kind: 'noop', payload: { number } })),
  )
}

/** Opens the database with this many rows; the first caller fills it. It gets its name when it is full. */
async function openFilled(
  conditions: Conditions,
  { ready, history }: { ready: number; history: number },
): Promise<Filled> {
  const server = groundUrl(conditions, 'postgres')
  const name = `bench_ready_${ready}_history_${history}`
  if ((await ask(server, `SELECT 1 FROM pg_database WHERE datname = '${name}'`)) === 0) {
    await ask(server, 'DROP DATABASE IF EXISTS bench_filling')
    await ask(server, 'CREATE DATABASE bench_filling TEMPLATE template0')
    await fill(withDatabase(server, 'bench_filling'), ready, history)
    await ask(server, `ALTER DATABASE bench_filling RENAME TO ${name}`)
  }
  const url = withDatabase(server, name)
  const box = await open(url)
  const { openPostgres } = await import('signalbox/postgres')
  const backend = await openPostgres(url, { namespace: 'default', migrate: false })
  return {
    url,
    box,
    store: backend.jobs,
    async [Symbol.asyncDispose]() {
      await backend.close()
      await box.close()
    },
  }
}

/** One job that waits and one that is history, made by Signalbox itself; all others are copies of these two. */
async function fill(url: string, ready: number, history: number): Promise<void> {
  {
    await using box = await open(url, { migrate: true })
    await addMany(box, 1)
    const [job] = await box.jobs.claim()
    await box.jobs.ack(job!)
    await addMany(box, 1)
  }
  await ask(url, copiesOf('job_queue', '00r'), ready - 1)
  await ask(url, copiesOf('job_history', '00h'), history)
  await ask(url, 'VACUUM ANALYZE')
}

/** Copies with ids and due times of their own, all before those of any job that is added later. */
function copiesOf(table: string, prefix: string): string {
  return `
    INSERT INTO ${table}
    SELECT copy.* FROM ${table} one, generate_series(1, $1::int) n,
      LATERAL jsonb_populate_record(one, jsonb_build_object('id', '${prefix}' || lpad(n::text, 23, '0'), 'run_at', one.run_at - $1 + n)) copy`
}

function withDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Runs one statement; answers how many rows it gave or changed. */
async function ask(url: string, sql: string, ...values: readonly unknown[]): Promise<number> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query(sql, [...values])).rowCount ?? 0
  } finally {
    await client.end()
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

const growth = { better: 'lower', peers: [] } as const

export const growthTrial: Trial = {
  name: 'claim-growth',
  open: groundOf('postgres'),
  contestants: { signalbox },
  cases: [
    {
      ...growth,
      name: 'claim-growth',
      unit: 'x from 1 k rows to 1 M (quick: 100 k)',
      figure: 'growth',
      goal: atMost(2),
    },
    {
      ...growth,
      name: 'claim-growth-snapshot',
      unit: 'x from 1 k rows to 1 M, snapshot held (quick: 5 s)',
      figure: 'held',
      goal: atMost(2),
    },
    {
      ...growth,
      name: 'claim-growth-snapshot-median',
      unit: 'x, the claim in the middle',
      figure: 'heldMedian',
      goal: printed,
    },
  ],
}
