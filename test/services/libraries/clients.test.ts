import assert from 'node:assert/strict'
import { Kysely, PostgresDialect } from 'kysely'
import { createConnection, createPool } from 'mysql2/promise'
import { Client, type CustomTypesConfig, Pool, type QueryConfig } from 'pg'
import postgres from 'postgres'
import { type Box, open } from 'signalbox'
import type { CallerTransaction } from 'signalbox/jobs'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { within } from '../../support/deadline.ts'
import { hasService, type OwnDatabase, ownMariadb, ownPostgres } from '../../support/services/own.ts'

/** Clients in states and settings that their owners choose. */

describe.skipIf(!hasService('postgres'))('postgres', () => {
  let own: OwnDatabase
  let box: Box

  beforeAll(async () => {
    own = await ownPostgres()
    box = await open(own.url, { migrate: true })
  })

  afterAll(async () => {
    await box?.close()
    await own?.[Symbol.asyncDispose]()
  })

  /** Jobs of a separate queue: one in flight, and one whose lease is lost. */
  async function claimTwo(queue: string) {
    await box.jobs.addMany([
      { kind: 'held', queue },
      { kind: 'lost', queue },
    ])
    const jobs = await box.jobs.claim({ queues: [queue], limit: 2, leaseMs: 60_000 })
    const held = jobs.find(({ kind }) => kind === 'held')!
    const lost = jobs.find(({ kind }) => kind === 'lost')!
    await box.jobs.ack(lost)
    return { held, lost }
  }

  const parsers: Readonly<Record<string, CustomTypesConfig['getTypeParser']>> = {
    text: () => (value: unknown) => value,
    numbers: () => Number as never,
  }
  test.each(Object.entries(parsers))(
    'a client that reads everything as %s recognises a lost lease',
    async (name, getTypeParser) => {
      const { held, lost } = await claimTwo(`types-${name}`)
      const client = new Client({ connectionString: own.url, types: { getTypeParser } })
      await client.connect()
      try {
        await client.query('BEGIN')
        await assert.rejects(box.jobs.ack(lost, { tx: client }), { code: 'lease_lost' })
        await client.query('ROLLBACK')
        await client.query('BEGIN')
        assert.deepEqual(await box.jobs.ack(held, { tx: client }), { state: 'completed' })
        const options = { uniqueKey: `types-${name}`, tx: client }
        const first = await box.jobs.add('mail', 1, options)
        assert.deepEqual(await box.jobs.add('mail', 2, options), { id: first.id, duplicate: true })
        const claimed = await box.once.claim(`types-${name}`, { tx: client })
        assert.equal(claimed.status === 'run' && claimed.attempt, 1)
        await client.query('COMMIT')
      } finally {
        await client.end()
      }
    },
  )

  test('a client returns to its pool after a refused ack, and no connection leaks', async () => {
    const pool = new Pool({ connectionString: own.url, max: 1 })
    const { lost } = await claimTwo('pooled')
    for (const end of ['COMMIT', 'ROLLBACK']) {
      const client = await pool.connect()
      await client.query('BEGIN')
      await assert.rejects(box.jobs.ack(lost, { tx: client }), { code: 'lease_lost' })
      await client.query(end)
      client.release()
      assert.deepEqual((await pool.query('SELECT 1 AS one')).rows, [{ one: 1 }])
      assert.deepEqual([pool.totalCount, pool.idleCount], [1, 1])
    }
    await pool.end()
  })

  test('a refused ack ends the transaction of a client that prepares every text', async () => {
    const { lost } = await claimTwo('prepared')
    const client = new Client({ connectionString: own.url })
    await client.connect()
    const query = (text: string, values: unknown[] = []) =>
      client.query({ text, values, queryMode: 'extended' } as QueryConfig)
    await query('BEGIN')
    await box.jobs.add('before the savepoint', {}, { tx: { query } as object })
    await query('SAVEPOINT part')
    await assert.rejects(box.jobs.ack(lost, { tx: { query } as object }), {
      code: 'lease_lost',
      message: /was ended/,
    })
    await assert.rejects(query('ROLLBACK TO SAVEPOINT part'), { code: '3B001' })
    await query('COMMIT')
    await client.end()
    assert.deepEqual((await box.jobs.list({ kind: 'before the savepoint' })).items, [])
  })

  test('a failed transaction is refused, for every library', async () => {
    const failed = { code: 'transaction_required', message: /failed already/ }
    const add = (tx: CallerTransaction) => assert.rejects(box.jobs.add('stray', 1, { tx }), failed)
    const sql = postgres(own.url)
    const begun = sql.begin(async (tx) => {
      await tx.unsafe('SELECT 1 / 0').catch(() => undefined)
      await add(tx)
    })
    // The library itself reports this at the commit.
    await assert.rejects(begun, { code: '22012' })
    await sql.end()
    const db = new Kysely<object>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: own.url }) }),
    })
    await db.transaction().execute(async (trx) => {
      await trx.selectNoFrom((build) => build.val(1).as('one')).execute()
      await trx.schema
        .dropTable('nowhere')
        .execute()
        .catch(() => undefined)
      await add(trx)
    })
    await db.destroy()
  })

  test('a client with a statement interface of its own is refused before anything is written', async () => {
    const client = new Client({ connectionString: own.url })
    await client.connect()
    await client.query('BEGIN')
    // As pg-promise has it: the rows alone.
    const tx = { query: async (text: string, values?: unknown[]) => (await client.query(text, values)).rows }
    await assert.rejects(box.jobs.add('stray', 1, { tx }), { code: 'invalid_argument' })
    await client.query('COMMIT')
    await client.end()
    assert.equal((await box.jobs.list({ kind: 'stray' })).items.length, 0)
  })

  test('a client that never connected, or has ended, is refused at once', async () => {
    const idle = new Client({ connectionString: own.url })
    const ended = new Client({ connectionString: own.url })
    await ended.connect()
    await ended.query('BEGIN')
    await ended.end()
    for (const tx of [idle, ended]) {
      const refused = assert.rejects(box.jobs.add('stray', 1, { tx }), { code: 'transaction_required' })
      await within(10_000, 'an answer', refused)
    }
    assert.equal((await box.jobs.list({ kind: 'stray' })).items.length, 0)
  })
})

describe.skipIf(!hasService('mariadb'))('mariadb', () => {
  test('a connection returns to its pool after a refused ack, and no statement in between commits alone', async () => {
    await using own = await ownMariadb()
    await using box = await open(own.url, { migrate: true })
    const pool = createPool({ uri: own.url.replace(/^mariadb:/, 'mysql:'), connectionLimit: 1 })
    await pool.query('CREATE TABLE paid (note varchar(40))')
    await box.jobs.add('lost', {})
    const [lost] = await box.jobs.claim({ limit: 1 })
    await box.jobs.ack(lost!)
    for (const end of ['COMMIT', 'ROLLBACK']) {
      const connection = await pool.getConnection()
      await connection.beginTransaction()
      await connection.query("INSERT INTO paid VALUES ('before')")
      await assert.rejects(box.jobs.ack(lost!, { tx: connection }), { code: 'lease_lost' })
      await assert.rejects(connection.query("INSERT INTO paid VALUES ('after')"), { errno: 1792 })
      await connection.query(end)
      connection.release()
      await pool.query("INSERT INTO paid VALUES ('alone')")
    }
    const [rows] = await pool.query('SELECT note FROM paid')
    assert.deepEqual(rows, [{ note: 'alone' }, { note: 'alone' }])
    await pool.end()
  })

  test('a closed connection is refused as outside a transaction', async () => {
    await using own = await ownMariadb()
    await using box = await open(own.url, { migrate: true })
    const connection = await createConnection(own.url.replace(/^mariadb:/, 'mysql:'))
    await connection.query('START TRANSACTION')
    await connection.end()
    await assert.rejects(box.jobs.add('stray', 1, { tx: connection }), { code: 'transaction_required' })
  })
})
