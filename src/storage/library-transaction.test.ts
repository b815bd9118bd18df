import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  askKysely,
  askPrisma,
  drizzleClient,
  findInnerTx,
  isKysely,
  isPostgresJs,
} from './library-transaction.ts'

// The libraries themselves are tried in test/services/libraries; here are the shapes that no story meets.

const client = { query() {} }
const refused = { code: 'transaction_required' }

function knexTx(over = false) {
  return Object.assign(() => undefined, {
    raw() {},
    client: { acquireConnection: async () => client },
    isTransaction: true,
    isCompleted: () => over,
  })
}

test('values that no library made are passed on unchanged', async () => {
  for (const tx of [client, null, undefined, 5, 'tx', {}, [], () => undefined]) {
    assert.equal(await findInnerTx(tx), tx)
  }
})

test('a transaction of MikroORM or Knex leads to its connection', async () => {
  assert.equal(await findInnerTx({ getTransactionContext: () => knexTx() }), client)
})

test('a transaction of Knex that has ended is refused', async () => {
  await assert.rejects(findInnerTx(knexTx(true)), refused)
})

test('a released runner of TypeORM is refused, whatever it reports of its transaction', async () => {
  const runner = { isTransactionActive: true, isReleased: true, connect: async () => client }
  await assert.rejects(findInnerTx(runner), refused)
  assert.equal(await findInnerTx({ ...runner, isReleased: false }), client)
})

test('a Drizzle database on one connection is that connection, and on a pool it is refused', async () => {
  const db = { session: { client }, dialect: {} }
  assert.equal(await findInnerTx(db), client)
  assert.equal(drizzleClient(db), client)
  assert.equal(drizzleClient({ session: { client } }), undefined)
  for (const pool of [{ totalCount: 0 }, { getConnection() {} }, { begin() {} }]) {
    await assert.rejects(findInnerTx({ session: { client: pool }, dialect: {} }), refused)
  }
})

test('a controlled transaction of Kysely that has ended is refused', async () => {
  const tx = { isTransaction: true, getExecutor() {}, executeQuery() {}, withoutPlugins() {} }
  assert.ok(isKysely(tx))
  assert.equal(await findInnerTx(tx), tx)
  await assert.rejects(findInnerTx({ ...tx, isCommitted: true }), refused)
  await assert.rejects(findInnerTx({ ...tx, isRolledBack: true }), refused)
  await assert.rejects(findInnerTx({ ...tx, isTransaction: false }), refused)
})

test('a database error that Kysely throws is passed on unchanged', async () => {
  const failure = new Error('no such table')
  const tx = {
    isTransaction: true,
    withoutPlugins: () => tx,
    executeQuery: () => Promise.reject(failure),
  }
  await assert.rejects(askKysely(tx, 'SELECT 1', []), (error) => error === failure)
})

test('the root of postgres.js is refused, and its transaction is recognised', async () => {
  const sql = Object.assign(() => undefined, { unsafe() {} })
  assert.ok(isPostgresJs(sql))
  assert.equal(await findInnerTx(sql), sql)
  await assert.rejects(findInnerTx(Object.assign(() => undefined, { unsafe() {}, begin() {} })), refused)
})

test('an error of Prisma has the code of the database, wherever Prisma stores it', async () => {
  const failing = (error: object) => ({ $queryRawUnsafe: () => Promise.reject(error) })
  const adapter = { driverAdapterError: { cause: { originalCode: '42P01' } } }
  for (const meta of [adapter, { code: '42P01' }]) {
    const error = Object.assign(new Error('failed'), { code: 'P2010', meta })
    await assert.rejects(askPrisma(failing(error), 'SELECT 1', []), { code: '42P01', cause: error })
  }
  const other = Object.assign(new Error('failed'), { code: 'P1001' })
  await assert.rejects(askPrisma(failing(other), 'SELECT 1', []), (error) => error === other)
  await assert.rejects(askPrisma(failing({ code: 'P2028' }), 'SELECT 1', []), refused)
})
