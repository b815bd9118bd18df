/** What only MariaDB can get wrong: a transaction whose beginning was sent with the end of the one before. */
import assert from 'node:assert/strict'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { describe, test } from 'vitest'
import { openMariadb } from '../../../src/backends/mariadb/index.ts'
import type { StoreTransaction } from '../../../src/jobs/index.ts'
import { runningJob, verdictOf } from '../../conformance/jobs/making.ts'
import { hasService, ownMariadb } from '../../support/services/own.ts'

async function createStage() {
  await using kept = new AsyncDisposableStack()
  const place = kept.use(await ownMariadb())
  const client = await createConnection(place.url)
  kept.defer(() => client.end())
  await client.query('CREATE TABLE effect (nr INT PRIMARY KEY)')
  const backend = kept.use(await openMariadb(`${place.url}?pool=1`, { namespace: 'default', migrate: true }))
  const transact = async (work: (tx: StoreTransaction) => Promise<unknown>): Promise<void> => {
    const claimed = await runningJob(backend)
    await backend.jobs.transact(
      async (tx) => {
        await work(tx)
        return verdictOf(claimed)
      },
      { timeoutMs: 0 },
    )
  }
  const effects = async (): Promise<number[]> => {
    const [rows] = await client.query<RowDataPacket[]>('SELECT nr FROM effect ORDER BY nr')
    return rows.map(({ nr }) => nr)
  }
  const owned = kept.move()
  return { transact, effects, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const write = 'INSERT INTO effect VALUES (?)'

describe.skipIf(!hasService('mariadb'))('on MariaDB', () => {
  test('a transaction with one statement is two round trips, but for the first of its connection', async () => {
    await using stage = await createStage()
    const asked: number[] = []
    for (let times = 0; times < 3; times++) {
      await stage.transact(async (tx) => {
        const { rows } = await tx.query("SHOW SESSION STATUS LIKE 'Questions'")
        asked.push(Number(rows[0]!.Value))
      })
    }
    assert.deepEqual([asked[1]! - asked[0]!, asked[2]! - asked[1]!], [2, 2])
  })

  test('whatever became of the one before, a transaction is all or nothing, and its end is noticed', async () => {
    await using stage = await createStage()
    await stage.transact((tx) => tx.query(write, [1]))
    const undone = stage.transact(async (tx) => {
      await tx.query(write, [2])
      throw new Error('undone')
    })
    await assert.rejects(undone, /undone/)
    await stage.transact((tx) => tx.query(write, [3]))
    const ended = stage.transact(async (tx) => {
      await tx.query(write, [4])
      await tx.query('COMMIT')
      await tx.query(write, [5])
    })
    await assert.rejects(ended, { code: 'transaction_conflict' })
    await stage.transact((tx) => tx.query(write, [6]))
    assert.deepEqual(await stage.effects(), [1, 3, 4, 6])
  })
})
