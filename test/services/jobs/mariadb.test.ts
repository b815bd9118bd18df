/** Faults that only MariaDB can have: statements of one packet, and what happens between two of them. */
import assert from 'node:assert/strict'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { describe, test } from 'vitest'
import type { StoreTransaction } from '../../../src/jobs/index.ts'
import { openMariadb } from '../../../src/storage/mariadb/index.ts'
import { addOne, endedJob, runningJob, until, verdictOf } from '../../conformance/jobs/making.ts'
import { hasService, ownMariadb } from '../../support/services/own.ts'

async function createStage() {
  await using kept = new AsyncDisposableStack()
  const place = kept.use(await ownMariadb())
  const client = await createConnection(place.url)
  kept.defer(() => client.end())
  const locker = await createConnection(place.url)
  kept.defer(() => locker.end())
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
  return { backend, client, locker, transact, effects, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const write = 'INSERT INTO effect VALUES (?)'

describe.skipIf(!hasService('mariadb'))('on MariaDB', () => {
  test('a transaction with one statement takes two round trips after the first on its connection', async () => {
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

  test('a transaction is all or nothing, whatever happened to the one before', async () => {
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

  test('retry, cancel and remove find a job that returns to the queue while they look for it', async () => {
    await using stage = await createStage()
    const { backend, client, locker } = stage
    const asks = [
      [async (id: string) => (await backend.jobs.retry(id))?.outcome, 'ready'],
      [async (id: string) => (await backend.jobs.cancel(id))?.state, 'cancelled'],
      [async (id: string) => (await backend.jobs.remove([id])).map(() => 'gone')[0], 'gone'],
    ] as const
    for (const [ask, expected] of asks) {
      const id = await endedJob(backend, 'dead', { queue: expected })
      const ready = await addOne(backend, { queue: expected })
      // The lock blocks reads of the history; when it ends, the job has moved from there to the queue.
      await locker.query('LOCK TABLES job_history WRITE')
      const answer = ask(id)
      await until('it is looked for', async () => {
        const [rows] = await client.query<RowDataPacket[]>(
          `SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE 'Waiting for table%'`,
        )
        return rows.length > 0
      })
      await client.query('UPDATE job_queue SET id = ? WHERE id = ?', [id, ready])
      await locker.query('DELETE FROM job_history WHERE id = ?', [id])
      await locker.query('UNLOCK TABLES')
      assert.equal(await answer, expected)
    }
  })
})
