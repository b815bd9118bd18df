/**
 * Orders and payments, with a worker that is killed over and over by `kill -9`. The handler writes the payment in the
 * transaction that also completes its job: both exist or neither does, at whatever moment the blow falls. The table of
 * payments has no unique constraint to hide behind, so an order that was paid twice would show.
 *
 *   npx node --conditions=source examples/payments.ts                 SQLite in a temporary folder, 100 kills (CI: 10)
 *   npx node --conditions=source examples/payments.ts --kills 10
 *   npx node --conditions=source examples/payments.ts postgres://…    the same on Postgres, or on MariaDB by mysql://…
 *
 * Ends with 1 when an order was not paid exactly once. It makes the tables example_orders and example_payments, and
 * removes them.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { open } from 'signalbox'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { kills: { type: 'string' }, worker: { type: 'string' } },
})
if (values.worker === undefined) process.exitCode = await supervise(positionals[0])
else await work(positionals[0]!, values.worker)

/** The worker process: all that an application has to write. */
async function work(url: string, namespace: string): Promise<void> {
  const box = await open(url, { namespace })
  const worker = box.jobs.worker({
    leaseMs: 2_000, // two seconds after a kill the next worker takes over
    pollMs: 50, // and it looks for orders all the time, so that every kill finds it at work
    handlers: {
      async pay(job) {
        await sleep(Math.random() * 200) // ask the bank
        await job.transaction(async (tx) => {
          const { orderId, amount } = job.payload
          await tx.sql`INSERT INTO example_payments (order_id, amount) VALUES (${orderId}, ${amount})`
        })
      },
    },
  })
  await worker.start()
  process.send?.('ready')
  process.once('disconnect', () => process.exit()) // the supervisor is gone
}

/** Takes orders, and kills and restarts the worker meanwhile; then counts. */
async function supervise(given: string | undefined): Promise<number> {
  const kills = Number(values.kills ?? (process.env.CI ? 10 : 100))
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-payments-'))
  const url = given ?? `sqlite:${join(folder, 'shop.db')}`
  const namespace = `payments-${process.pid}-${Date.now()}`
  await using box = await open(url, { namespace, migrate: true })
  const shop = await connect(url)
  for (const table of ['example_orders', 'example_payments']) await shop.run(`DROP TABLE IF EXISTS ${table}`)
  await shop.run('CREATE TABLE example_orders (id INTEGER NOT NULL PRIMARY KEY, amount INTEGER NOT NULL)')
  await shop.run('CREATE TABLE example_payments (order_id INTEGER NOT NULL, amount INTEGER NOT NULL)')

  let worker = fork(import.meta.filename, [url, '--worker', namespace])
  let orderId = 0
  for (let kill = 1; kill <= kills; kill++) {
    await once(worker, 'message', { signal: AbortSignal.timeout(30_000) }) // it is ready
    // An order and its job are one transaction too: there is no order without a job that pays it.
    await shop.run('BEGIN')
    for (let i = 0; i < 20; i++) {
      orderId++
      const amount = 100 + (orderId % 900)
      await shop.run(`INSERT INTO example_orders (id, amount) VALUES (${orderId}, ${amount})`)
      // A kill counts as an attempt. Five are the default, and here an order may meet more of them than that.
      await box.jobs.add('pay', { orderId, amount }, { tx: shop.tx, maxAttempts: 1_000 })
    }
    await shop.run('COMMIT')
    await sleep(Math.random() * 250)
    worker.kill('SIGKILL')
    worker = fork(import.meta.filename, [url, '--worker', namespace])
    if (kill % 10 === 0)
      console.log(`${kill} kills, ${await shop.count('FROM example_payments')} payments so far`)
  }

  const isBusy = async () =>
    (await box.jobs.stats()).some((line) => line.ready + line.scheduled + line.running > 0)
  for (const deadline = Date.now() + 60_000; (await isBusy()) && Date.now() < deadline; ) await sleep(50)
  worker.kill('SIGKILL')

  const orders = await shop.count('FROM example_orders')
  const payments = await shop.count('FROM example_payments')
  const paidOnce = await shop.count(
    'FROM (SELECT order_id FROM example_payments GROUP BY order_id HAVING COUNT(*) = 1) AS paid_once',
  )
  let completed = 0
  let attempts = 0
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await box.jobs.list({ state: 'completed', limit: 500, cursor })
    completed += page.items.length
    for (const job of page.items) attempts += job.attempt
    cursor = page.cursor
  }
  console.log(`kills               ${kills}`)
  console.log(`orders              ${orders}`)
  console.log(`payments            ${payments}`)
  console.log(`paid exactly once   ${paidOnce}`)
  console.log(`jobs completed      ${completed}, in ${attempts} attempts`)
  const isProven = orders === orderId && [payments, paidOnce, completed].every((count) => count === orders)
  console.log(isProven ? 'Every order was paid exactly once.' : 'NOT every order was paid exactly once.')

  for (const table of ['example_orders', 'example_payments']) await shop.run(`DROP TABLE ${table}`)
  await box.jobs.prune({ olderThanMs: 0 })
  await shop.close()
  rmSync(folder, { recursive: true })
  return isProven ? 0 : 1
}

/** The shop's own connection, by its own driver: all that differs from engine to engine. */
async function connect(url: string) {
  const shop = await connectDriver(url)
  const count = async (what: string) => Number((await shop.run(`SELECT COUNT(*) AS n ${what}`))[0]?.n)
  return { ...shop, count }
}

async function connectDriver(url: string) {
  type Rows = readonly { n?: unknown }[]
  if (url.startsWith('postgres')) {
    const { Client } = await import('pg')
    const client = new Client(url)
    await client.connect()
    const run = async (sql: string): Promise<Rows> => (await client.query(sql)).rows
    return { tx: client, run, close: () => client.end() }
  }
  if (url.startsWith('mysql')) {
    const { createConnection } = await import('mysql2/promise')
    const connection = await createConnection(url)
    const run = async (sql: string) => (await connection.query(sql))[0] as unknown as Rows
    return { tx: connection, run, close: () => connection.end() }
  }
  const db = new DatabaseSync(url.replace('sqlite:', ''), { timeout: 5_000 })
  // The one connection that may write at a time is asked for at once, not at the first write.
  const run = async (sql: string): Promise<Rows> =>
    db.prepare(sql === 'BEGIN' ? 'BEGIN IMMEDIATE' : sql).all()
  return { tx: db, run, close: async () => db.close() }
}
