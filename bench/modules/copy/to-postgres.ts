/**
 * How fast jobs get from SQLite to Postgres: the copy alone, and with the proof that both sides are equal. The limit reads
 * nothing and proves nothing: it has the rows in memory and inserts them by the bare driver, pages in transactions.
 */
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { copy } from '../../../src/copy/index.ts'
import { open } from '../../../src/index.ts'
import { openMigrator } from '../../../src/storage/index.ts'
import type { Conditions, Contestant, Trial } from '../../case.ts'
import { allOf, atLeast, atLeastTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'

const copied: Contestant = async (conditions) => {
  await using source = await createPlace(conditions, 'sqlite')
  await using target = await createPlace(conditions, 'postgres')
  await fill(source.url, countOf(conditions))
  const startedAt = performance.now()
  const { jobs, copyMs } = await copy(source.url, target.url)
  const allMs = performance.now() - startedAt
  return { rate: (jobs / copyMs) * 1_000, proved: (jobs / allMs) * 1_000 }
}

const inserted: Contestant = async (conditions) => {
  await using source = await createPlace(conditions, 'sqlite')
  await using target = await createPlace(conditions, 'postgres')
  await fill(source.url, countOf(conditions))
  await using migrator = await openMigrator(target.url)
  await migrator.up()
  const rows = readAll(source.url)
  const client = new Client(target.url)
  await client.connect()
  try {
    const startedAt = performance.now()
    for (let at = 0; at < rows.length; at += pageRows) {
      const page = rows.slice(at, at + pageRows)
      await client.query('BEGIN')
      await client.query(
        insert,
        columns.map((_, column) => page.map((row) => row[column])),
      )
      await client.query('COMMIT')
    }
    const rate = (rows.length / (performance.now() - startedAt)) * 1_000
    return { rate, proved: rate }
  } finally {
    await client.end()
  }
}

export const toPostgresTrial: Trial = {
  name: 'sqlite-to-postgres',
  open: groundOf('postgres', 'sqlite'),
  rounds: 3,
  contestants: { signalbox: copied, limit: inserted },
  cases: [
    {
      name: 'copy',
      unit: 'jobs/s',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: allOf(atLeast(20_000), atLeastTimes(0.5, 'limit')),
    },
    {
      name: 'copy-proved',
      unit: 'jobs/s',
      better: 'higher',
      figure: 'proved',
      peers: [],
      goal: atLeast(20_000),
    },
  ],
}

const pageRows = 5_000

function countOf({ quick }: Conditions): number {
  return quick ? 50_000 : 200_000
}

async function fill(url: string, count: number): Promise<void> {
  await using box = await open(url, { contention: false })
  for (let done = 0; done < count; done += pageRows)
    await box.jobs.addMany(
      Array.from({ length: Math.min(pageRows, count - done) }, (_, index) => ({
        kind: 'mail.welcome',
        queue: `mail-${index % 4}`,
        payload: { to: `user${done + index}@example.org`, template: 'welcome', locale: 'en', attempt: index },
      })),
    )
}

const columns: readonly (readonly [name: string, type: string])[] = [
  ['namespace', 'text'],
  ['id', 'text'],
  ['queue', 'text'],
  ['kind', 'text'],
  ['payload', 'text'],
  ['priority', 'integer'],
  ['unique_key', 'text'],
  ['state', 'text'],
  ['attempt', 'integer'],
  ['max_attempts', 'integer'],
  ['hand_back_count', 'integer'],
  ['snooze_count', 'integer'],
  ['run_at', 'bigint'],
  ['created_at', 'bigint'],
  ['updated_at', 'bigint'],
  ['started_at', 'bigint'],
  ['worker_id', 'text'],
  ['backoff', 'text'],
  ['timeout_ms', 'bigint'],
  ['error', 'text'],
  ['meta', 'text'],
]
const names = columns.map(([name]) => name).join(', ')
const insert = `INSERT INTO job_queue (${names})
  SELECT * FROM unnest(${columns.map(([, type], index) => `$${index + 1}::${type}[]`).join(', ')})`

function readAll(url: string): readonly (readonly unknown[])[] {
  const db = new DatabaseSync(url.slice('sqlite:'.length), { readOnly: true })
  try {
    const statement = db.prepare(`SELECT ${names} FROM job_queue ORDER BY namespace, id`)
    statement.setReturnArrays(true)
    return statement.all() as unknown as readonly (readonly unknown[])[]
  } finally {
    db.close()
  }
}
