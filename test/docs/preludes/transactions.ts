import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { EntitySchema } from '@mikro-orm/core'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { Pool, type PoolClient } from 'pg'
import { type Box, open } from 'signalbox'
import type { HandlerJob } from 'signalbox/jobs'
import { addresses } from '../addresses.ts'
import { complete, inHand, letGo } from '../handler-job.ts'
import { around, check } from '../prelude.ts'

export const url: string = addresses.postgres!
export const pool: Pool = new Pool({ connectionString: url })

// The row that every library writes beside the job, on both engines.
const table = 'CREATE TABLE paid (note varchar(40))'
await pool.query(table)
await (await open('sqlite:signalbox.db')).close()
const database = new DatabaseSync('signalbox.db', { timeout: 5_000 })
database.exec(table)

// biome-ignore lint/suspicious/noExplicitAny: Drizzle's type of it is long, and adds nothing here
export const paid: any = pgTable('paid', { note: text() })
export interface Tables {
  readonly paid: { readonly note: string }
}
export const entities: EntitySchema[] = [
  new EntitySchema({
    name: 'Paid',
    tableName: 'paid',
    properties: { note: { type: 'string', primary: true } },
  }),
]

export let box: Box
export let tx: PoolClient
export let job: HandlerJob
export let refund: HandlerJob

around(async ({ key, text: block }) => {
  const isSqlite = block.includes('DatabaseSync')
  box = await open(isSqlite ? 'sqlite:signalbox.db' : url)
  await pool.query('DELETE FROM paid')
  database.exec('DELETE FROM paid')
  tx = await pool.connect()
  if (key === calls) {
    job = await inHand(box)
    refund = await inHand(box, 'refund')
    await tx.query('BEGIN')
  }
  if (key === refused) {
    job = await inHand(box)
    // The lease ran out meanwhile, and another worker did the job.
    await box.jobs.ack({ id: job.id, token: job.token })
  }
  return async () => {
    letGo()
    tx.release(true)
    await box.close()
  }
})

check('Transactions of your library', async () => {
  assert.deepEqual((await pool.query('SELECT note FROM paid')).rows, [{ note: 'order 7' }])
  const { items } = await box.jobs.list({ kind: 'charge', state: 'ready' })
  assert.deepEqual(
    items.map(({ payload }) => payload),
    [{ orderId: 7 }],
  )
})

check('Complete a job in your transaction', async ({ values: { worker } }) => {
  const [charge] = (await box.jobs.list({ kind: 'charge', state: 'ready' })).items
  await complete(worker, 1)
  assert.deepEqual((await box.jobs.find(charge!.id))?.result, { ok: true })
  assert.deepEqual((await pool.query('SELECT note FROM paid')).rows, [{ note: 'order 7' }])
})

const calls = 'The calls that take tx'
check(calls, async () => {
  const states = () => Promise.all([job, refund].map(async ({ id }) => (await box.jobs.find(id))?.state))
  assert.deepEqual(await states(), ['running', 'running'])
  await tx.query('COMMIT')
  assert.deepEqual(await states(), ['completed', 'scheduled'])
  assert.equal((await box.jobs.list({ kind: 'mail', state: 'ready' })).items.length, 1)
  await box.jobs.remove((await box.jobs.list({ kind: 'mail' })).items.map(({ id }) => id))
  assert.equal((await box.once.claim('order:7')).status, 'running')
})

const refused = 'After an error, nothing can be committed'
check(refused, async ({ output }) => {
  assert.match(output, /no longer held.+was ended/)
  assert.deepEqual((await pool.query('SELECT note FROM paid')).rows, [])
})

/** Each library has written its row and added its job, once. */
let mails = { postgres: 0, sqlite: 0 }
const isPaid = async (engine: 'postgres' | 'sqlite') => {
  const rows =
    engine === 'sqlite'
      ? database.prepare('SELECT note FROM paid').all()
      : (await pool.query('SELECT note FROM paid')).rows
  assert.deepEqual(
    rows.map((row) => ({ ...row })),
    [{ note: 'order 7' }],
  )
  mails = { ...mails, [engine]: mails[engine] + 1 }
  assert.equal((await box.jobs.list({ kind: 'mail' })).items.length, mails[engine])
}
for (const library of ['Drizzle', 'Kysely', 'Knex', 'postgres.js', 'TypeORM', 'MikroORM', 'Prisma']) {
  check(library, () => isPaid('postgres'))
}
for (const library of ['Drizzle #2', 'Kysely #2']) check(library, () => isPaid('sqlite'))

/** The face of Prisma's interactive transactions: its client is 72 MB, and is made by a generator. */
interface PrismaTransaction {
  $executeRaw(parts: TemplateStringsArray, ...values: unknown[]): Promise<number>
  $queryRawUnsafe(sql: string, ...values: unknown[]): Promise<unknown>
}
export const prisma: { $transaction(work: (tx: PrismaTransaction) => Promise<void>): Promise<void> } = {
  async $transaction(work) {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await work({
        $executeRaw: async (parts, ...values) =>
          (
            await client.query(
              parts.reduce((sql, part, at) => `${sql}$${at}${part}`),
              values,
            )
          ).rowCount!,
        $queryRawUnsafe: async (sql, ...values) => (await client.query(sql, values)).rows,
      })
      await client.query('COMMIT')
    } finally {
      client.release()
    }
  },
}
