/**
 * A database with a million jobs in ten queues and a million more in the history, filled once a trial and used by every
 * round. Signalbox itself makes the rare jobs (a queue and a kind with a few jobs, every state, tasks, bulk operations);
 * the database copies all others. The oldest ten thousand of each table have a queue and a kind to themselves: a search
 * for them from the newest on passes all others.
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { open } from 'signalbox'
import type { AddOptions } from 'signalbox/jobs'
import type { Conditions } from '../../case.ts'
import { groundUrl } from '../jobs/ground.ts'

export type FilledEngine = 'sqlite' | 'postgres'

export function rowsOf({ quick }: Conditions): number {
  return quick ? 100_000 : 1_000_000
}

/** The address of the filled database. It gets its name when it is full. */
export async function openFilled(conditions: Conditions, engine: FilledEngine): Promise<string> {
  const count = rowsOf(conditions)
  return engine === 'sqlite' ? await filledSqlite(conditions, count) : await filledPostgres(conditions, count)
}

/** Names that few jobs have, and names that none but the oldest have. */
export const filledNames = {
  rareQueue: 'rare-queue',
  rareKind: 'rare-kind',
  oldQueue: 'old-queue',
  oldKind: 'old-kind',
} as const

/** An id of each table: sorted before those of jobs that are added later. */
export const filledIds: { readonly live: string; readonly ended: string } = {
  live: idOf('00r', 77_777),
  ended: idOf('00h', 77_777),
}

function idOf(prefix: string, number: number): string {
  return prefix + String(number).padStart(23, '0')
}

async function filledSqlite(conditions: Conditions, count: number): Promise<string> {
  const folder = groundUrl(conditions, 'sqlite')
  const path = join(folder, `dashboard-${count}.db`)
  if (existsSync(path)) return `sqlite:${path}`
  const filling = join(folder, 'filling.db')
  for (const end of ['', '-wal', '-shm']) rmSync(filling + end, { force: true })
  await addTwo(`sqlite:${filling}`)
  let db = new DatabaseSync(filling)
  const columnsOf = (table: string) =>
    db
      .prepare(`SELECT name FROM pragma_table_info('${table}')`)
      .all()
      .map(({ name }) => String(name))
  const series = `(WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${count})
    SELECT n FROM counted) series`
  const id = (prefix: string) => `printf('${prefix}%023d', n)`
  db.exec(copies('job_queue', columnsOf('job_queue'), liveCopies(id('00r')), series))
  db.exec(copies('job_history', columnsOf('job_history'), endedCopies(id('00h')), series))
  db.close()
  await addRare(`sqlite:${filling}`)
  db = new DatabaseSync(filling)
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  // Only a file whose log is folded in may be moved by itself.
  db.exec('PRAGMA journal_mode = DELETE')
  db.close()
  renameSync(filling, path)
  return `sqlite:${path}`
}

async function filledPostgres(conditions: Conditions, count: number): Promise<string> {
  const server = groundUrl(conditions, 'postgres')
  const name = `dashboard_${count}`
  const url = withDatabase(server, name)
  const there = await ask(server, `SELECT 1 FROM pg_database WHERE datname = '${name}'`)
  if (there.length > 0) return url
  await ask(server, 'DROP DATABASE IF EXISTS dashboard_filling')
  await ask(server, 'CREATE DATABASE dashboard_filling TEMPLATE template0')
  const filling = withDatabase(server, 'dashboard_filling')
  await addTwo(filling)
  const columnsOf = async (table: string) =>
    (
      await ask(
        filling,
        `SELECT attname AS name FROM pg_attribute
         WHERE attrelid = '${table}'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
      )
    ).map(({ name }) => String(name))
  const series = `generate_series(1, ${count}) n`
  const id = (prefix: string) => `'${prefix}' || lpad(n::text, 23, '0')`
  await ask(filling, copies('job_queue', await columnsOf('job_queue'), liveCopies(id('00r')), series))
  await ask(filling, copies('job_history', await columnsOf('job_history'), endedCopies(id('00h')), series))
  await addRare(filling)
  await ask(filling, 'VACUUM ANALYZE')
  await ask(filling, 'CHECKPOINT')
  await ask(server, `ALTER DATABASE dashboard_filling RENAME TO ${name}`)
  return url
}

/** A job that waits, and one that is history. */
async function addTwo(url: string): Promise<void> {
  await using box = await open(url, { migrate: true })
  const payload = { to: 'ada@example.com', subject: 'x'.repeat(80) }
  await box.jobs.add('mail', payload)
  const [job] = await box.jobs.claim()
  await box.jobs.ack(job!)
  await box.jobs.add('mail', payload)
}

/** Some of everything that there is little of. */
async function addRare(url: string): Promise<void> {
  await using box = await open(url)
  const { jobs, dispatch } = box
  const { rareQueue: queue, rareKind } = filledNames
  const many = (kind: string, count: number, options: AddOptions = {}) =>
    jobs.addMany(Array.from({ length: count }, (_, n) => ({ kind, payload: { n }, ...options })))
  await many('mail', 30, { queue })
  for (const job of await jobs.claim({ queues: [queue], limit: 10 })) await jobs.ack(job)
  // An hour is longer than any measurement.
  await jobs.claim({ queues: [queue], limit: 10, leaseMs: 3_600_000 })
  await many('mail', 5, { queue, delayMs: 86_400_000 })
  const given = await many(rareKind, 20, { queue: 'queue-1' })
  for (const { id } of given.slice(0, 5)) await jobs.cancel(id)
  const [first] = await many('mail', 1, { queue, delayMs: 86_400_000 })
  await many('mail', 20, { queue: 'queue-2', after: [first!.id] })
  for (let n = 0; n < 20; n++) {
    const { taskId } = await dispatch.submit({ service: 'asr', payload: { n } })
    if (n % 2 === 0) await dispatch.cancel(taskId)
  }
  for (let n = 0; n < 3; n++) {
    const { id } = await jobs.bulk({ action: 'retry', search: `kind:nothing-${n}` })
    // Or the server would set to work on it.
    await jobs.cancelBulk(id)
  }
}

type Copies = Readonly<Record<string, string>>

/** In ten queues, of twenty kinds, one in twenty for later. */
function liveCopies(id: string): Copies {
  return {
    id,
    queue: queueOfCopy,
    kind: kindOfCopy,
    state: `CASE WHEN n % 20 = 7 THEN 'scheduled' ELSE 'ready' END`,
    run_at: 'CASE WHEN n % 20 = 7 THEN one.run_at + 86400000 + n ELSE one.run_at - n END',
  }
}

/** One in a hundred is dead. */
function endedCopies(id: string): Copies {
  return {
    id,
    queue: queueOfCopy,
    kind: kindOfCopy,
    state: `CASE WHEN n % 100 = 0 THEN 'dead' ELSE 'completed' END`,
  }
}

const oldCount = 10_000
const queueOfCopy = `CASE WHEN n <= ${oldCount} THEN '${filledNames.oldQueue}' ELSE 'queue-' || (n % 10) END`
const kindOfCopy = `CASE WHEN n <= ${oldCount} THEN '${filledNames.oldKind}' ELSE 'kind-' || (n % 20) END`

function copies(table: string, columns: readonly string[], given: Copies, series: string): string {
  const chosen = columns.map((name) => given[name] ?? `one.${name}`)
  return `INSERT INTO ${table} (${columns.join(', ')})
    SELECT ${chosen.join(', ')} FROM (SELECT * FROM ${table} LIMIT 1) one CROSS JOIN ${series}`
}

function withDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
