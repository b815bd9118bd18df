import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { complete } from '../../handler-job.ts'
import { pool } from '../../postgres-box.ts'
import { check } from '../../prelude.ts'

export * from '../../postgres-box.ts'

await pool.query('CREATE TABLE payment (order_id int)')
export const db: NodePgDatabase = drizzle(pool)
// biome-ignore lint/suspicious/noExplicitAny: Drizzle's type of it is long, and adds nothing here
export const payment: any = pgTable('payment', { orderId: integer('order_id') })

check('The same program, twice #2', async ({ values: { worker } }) => {
  await complete(worker, 1)
  if ((await pool.query('SELECT FROM payment WHERE order_id = 7')).rowCount !== 1)
    throw new Error('it was not paid')
})
