/** Statements of handlers that Postgres keeps prepared: handlers see no difference except in time. */
import assert from 'node:assert/strict'
import { Client } from 'pg'
import { describe, test } from 'vitest'
import { open } from '../../../src/index.ts'
import type { StoreTransaction } from '../../../src/jobs/index.ts'
import { openPostgres } from '../../../src/storage/postgres/index.ts'
import { runningJob, verdictOf } from '../../conformance/jobs/making.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

const often = 8
const soon = { timeoutMs: 0 }

async function createStage() {
  await using kept = new AsyncDisposableStack()
  const place = kept.use(await ownPostgres())
  const client = new Client(place.url)
  await client.connect()
  kept.defer(() => client.end())
  await client.query('CREATE TABLE effect (nr int PRIMARY KEY, word text)')
  const url = `${place.url}?pool=1`
  const backend = kept.use(await openPostgres(url, { namespace: 'default', migrate: true }))
  /** One job with such a transaction. */
  const transact = async (work: (tx: StoreTransaction) => Promise<unknown>): Promise<void> => {
    const claimed = await runningJob(backend)
    await backend.jobs.transact(async (tx) => {
      await work(tx)
      return verdictOf(claimed)
    }, soon)
  }
  const owned = kept.move()
  return { url, client, backend, transact, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const read = 'SELECT * FROM effect WHERE nr = $1'
const write = 'INSERT INTO effect (nr, word) VALUES ($1, $2)'
const preparedNow = async (tx: StoreTransaction, text: string): Promise<number> =>
  (await tx.query('SELECT statement FROM pg_prepared_statements')).rows.filter(
    ({ statement }) => statement === text,
  ).length

describe.skipIf(!hasService('postgres'))('on Postgres', () => {
  test('a frequent statement is prepared once, a rare one is not', async () => {
    await using stage = await createStage()
    for (let nr = 0; nr < often; nr++) await stage.transact((tx) => tx.query(write, [nr, 'a']))
    await stage.transact((tx) => tx.query(read, [1]))
    await stage.transact(async (tx) => {
      assert.equal(await preparedNow(tx, write), 1)
      assert.equal(await preparedNow(tx, read), 0)
    })
    assert.equal((await stage.client.query('SELECT FROM effect')).rowCount, often)
  })

  test('a statement that failed works again in the next transaction, prepared or not', async () => {
    await using stage = await createStage()
    await stage.client.query(`INSERT INTO effect VALUES (1, 'there')`)
    // Also the execution that gets the name: it was parsed, and failed when it ran.
    for (let times = 0; times < 2 * often; times++) {
      await assert.rejects(
        stage.transact((tx) => tx.query(write, [1, 'twice'])),
        { code: '23505' },
      )
    }
    await stage.transact((tx) => Promise.all([2, 3, 4].map((nr) => tx.query(write, [nr, null]))))
    assert.equal((await stage.client.query('SELECT FROM effect')).rowCount, 4)
  })

  test('after its table was altered the job is tried again and loses no attempt', async () => {
    await using stage = await createStage()
    await using box = await open(stage.url)
    const seen: unknown[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    await using worker = box.jobs.worker({
      handlers: {
        look: (job) =>
          job.transaction(async (tx) => {
            const { rows } = await tx.query(read, [1])
            seen.push(job.attempt, ...rows)
            if (rows.length > 0) resolve()
          }),
      },
    })
    await worker.start()
    for (let times = 0; times < often; times++) await box.jobs.add('look')
    while (seen.length < often) await new Promise((wake) => setTimeout(wake, 10))
    await stage.client.query(
      `ALTER TABLE effect ADD COLUMN more int DEFAULT 7; INSERT INTO effect VALUES (1, 'w')`,
    )
    const { id } = await box.jobs.add('look', null, { maxAttempts: 1 })
    await promise
    assert.deepEqual(seen.slice(-2), [1, { nr: 1, word: 'w', more: 7 }])
    await worker.stop()
    assert.equal((await box.jobs.find(id))?.state, 'completed')
  })

  test('parameter types from before the table was altered are not reused', async () => {
    await using stage = await createStage()
    for (let nr = 0; nr < often; nr++) await stage.transact((tx) => tx.query(write, [nr, 'a']))
    await stage.client.query('DELETE FROM effect; ALTER TABLE effect ALTER word TYPE int USING 1')
    await assert.rejects(
      stage.transact((tx) => tx.query(write, [1, 5])),
      { code: 'transaction_conflict' },
    )
    await stage.transact((tx) => tx.query(write, [1, 5]))
    // A permanent error is thrown as it is.
    await stage.client.query('DROP TABLE effect')
    await assert.rejects(
      stage.transact((tx) => tx.query(write, [2, 5])),
      { code: '42P01' },
    )
  })

  test('a pooler that forgets prepared statements costs one more try', async () => {
    await using stage = await createStage()
    for (let nr = 0; nr < often; nr++) await stage.transact((tx) => tx.query(write, [nr, 'a']))
    await assert.rejects(
      stage.transact((tx) => tx.query('DEALLOCATE ALL')),
      { code: 'transaction_conflict' },
    )
    await stage.transact((tx) => tx.query(write, [100, 'late']))
    await stage.transact(async (tx) => assert.equal(await preparedNow(tx, write), 0))
  })

  test('a value that cannot be sent leaves the transaction intact', async () => {
    await using stage = await createStage()
    const unsendable = {
      toPostgres() {
        throw new Error('no')
      },
    }
    const work = async (tx: StoreTransaction) => {
      await assert.rejects(tx.query(write, [1, unsendable]), /^Error: no$/)
      await tx.query(write, [2, 'kept'])
    }
    await assert.rejects(
      stage.transact(async (tx) => {
        await work(tx)
        throw new Error('undone')
      }),
      /undone/,
    )
    assert.equal((await stage.client.query('SELECT FROM effect')).rowCount, 0)
    await stage.transact(work)
    assert.equal((await stage.client.query('SELECT FROM effect')).rowCount, 1)
  })
})
