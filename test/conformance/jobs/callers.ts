import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../support/deadline.ts'
import { aNamespace, type Candidate, type SqlSide } from '../candidates.ts'
import { openLedger } from './ledger.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  find,
  ids,
  lapse,
  lapsedJob,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  shortMs,
  verdictOf,
} from './making.ts'

/** A job is settled inside a caller's transaction, and ended when that commits. */
export function callersContract({ open, sql: side }: Candidate): void {
  const sql: SqlSide = side!

  test('basic use: a business row and an ack with its result commit in one transaction', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)

    await caller.begin()
    await caller.exec(`INSERT INTO ${ledger.table} (note) VALUES (?)`, 'order 1 paid')
    assert.equal(
      await backend.jobs.settleIn(caller.tx, verdictOf(claimed, { result: '{"paid":true}' })),
      true,
    )
    await caller.commit()

    assert.deepEqual(await ledger.logs(), ['order 1 paid'])
    const { state, result, finishedAt } = await find(backend, claimed.id)
    assert.deepEqual([state, result], ['completed', '{"paid":true}'])
    assert.ok(finishedAt !== null)
    assert.deepEqual(await claim(backend), [])
  })

  test('error handling: a committed nack settles the job once, even if the handler throws afterwards', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    const error = '{"message":"the card was declined"}'

    const handler = async () => {
      await caller.begin()
      await caller.exec(`INSERT INTO ${ledger.table} (note) VALUES (?)`, 'attempt 1')
      const nack = verdictOf(claimed, { state: 'scheduled', delayMs: longMs, error })
      assert.equal(await backend.jobs.settleIn(caller.tx, nack), true)
      await caller.commit()
      throw new Error('the card was declined')
    }
    await assert.rejects(handler(), /declined/)
    // A worker settles with the error that it caught. The attempt has ended, so the store refuses.
    assert.equal(await settleOne(backend, claimed, { state: 'dead', error: '{"message":"again"}' }), false)

    const job = await find(backend, claimed.id)
    assert.deepEqual([job.state, job.attempt, job.error], ['scheduled', 1, error])
    assert.deepEqual(await ledger.logs(), ['attempt 1'])
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['settled'])
  })

  test('a rollback leaves the job as it was, and it can be settled again', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    const before = await find(backend, claimed.id)
    for (const state of ['completed', 'dead', 'scheduled', 'ready'] as const) {
      await caller.begin()
      await caller.exec(`INSERT INTO ${ledger.table} (note) VALUES (?)`, 'never')
      assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed, { state, result: '1' })), true)
      await caller.rollback()
      assert.deepEqual(await find(backend, claimed.id), before)
      assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    }
    assert.deepEqual(await ledger.logs(), [])
    assert.equal(await settleOne(backend, claimed), true)
  })

  for (const state of ['completed', 'dead', 'cancelled', 'scheduled', 'ready'] as const) {
    test(`a job settled as ${state} in a transaction equals one that is settled outside`, async () => {
      await using backend = await open()
      await using caller = await sql.connect()
      const [inside, outside] = [
        await runningJob(backend, { queue: 'a', due: { runAt: 7 } }),
        await runningJob(backend, { queue: 'b', due: { runAt: 7 } }),
      ]
      const verdict = {
        state,
        attempt: 3,
        handBackCount: 2,
        snoozeCount: 5,
        delayMs: longMs,
        result: '1',
        error: '2',
      }
      await caller.begin()
      assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(inside, verdict)), true)
      await caller.commit()
      assert.equal(await settleOne(backend, outside, verdict), true)
      const shown = async (id: string) => {
        const { id: _, queue: __, createdAt, startedAt, finishedAt, runAt, ...rest } = await find(backend, id)
        return {
          ...rest,
          created: createdAt > 0,
          started: startedAt !== null,
          finished: finishedAt !== null,
          runsLater: runAt > 7,
        }
      }
      assert.deepEqual(await shown(inside.id), await shown(outside.id))
    })
  }

  test('an attempt is held before the commit and settled after it', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    await caller.begin()
    await backend.jobs.settleIn(caller.tx, verdictOf(claimed))
    const outcomes = () => within(2_000, 'asking for outcomes', backend.jobs.outcomes([leaseOf(claimed)]))
    assert.deepEqual(await outcomes(), ['held'])
    assert.equal((await within(2_000, 'finding', find(backend, claimed.id))).state, 'running')
    await caller.commit()
    assert.deepEqual(await outcomes(), ['settled'])
  })

  test('a lost lease settles nothing', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const lapsed = await lapsedJob(backend, { queue: 'a' })
    const done = await runningJob(backend, { queue: 'b' })
    await settleOne(backend, done)
    const refused = [
      verdictOf(lapsed),
      verdictOf(done, { state: 'ready' }),
      verdictOf({ ...done, token: 'none' }),
    ]
    for (const verdict of refused) {
      await caller.begin()
      assert.equal(await backend.jobs.settleIn(caller.tx, verdict), false)
      await caller.commit()
    }
    assert.equal((await find(backend, lapsed.id)).state, 'ready')
    assert.equal((await find(backend, done.id)).state, 'completed')
  })

  test('the same verdict is refused the second time in one transaction', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    await caller.begin()
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed)), true)
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed)), false)
    await caller.rollback()
    assert.equal((await find(backend, claimed.id)).state, 'running')
  })

  test('a lease that expires during a transaction is lost', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const claimed = await runningJob(backend, {}, { leaseMs: 100 })
    await caller.begin()
    await caller.exec('SELECT 1')
    await lapse(backend, claimed)
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed)), false)
    await caller.commit()
    assert.equal((await find(backend, claimed.id)).state, 'ready')
  })

  test.runIf(sql.rowLocks)('a transaction with an old snapshot cannot settle a lost lease', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    await using caller = await sql.connect()
    const first = await runningJob(backend, {}, { leaseMs: 100 })
    await caller.begin()
    // The snapshot of a repeatable read starts here, while the first lease is live.
    await caller.exec(`SELECT note FROM ${ledger.table}`)
    await lapse(backend, first)
    const second = await claimOne(backend)
    assert.equal(second.id, first.id)
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(first)), false)
    await caller.commit()
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(first), leaseOf(second)]), ['lost', 'held'])
    assert.equal(await settleOne(backend, second), true)
  })

  test.runIf(sql.rowLocks)(
    'when a lease expires after the ack, either the commit or the next claim wins',
    async () => {
      await using backend = await open()
      await using caller = await sql.connect()
      const first = await runningJob(backend, {}, { leaseMs: 1_000 })
      await caller.begin()
      assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(first)), true)
      await lapse(backend, first)
      await within(2_000, 'taking back', backend.jobs.reclaim(10))
      const [second] = await within(2_000, 'claiming', claim(backend))
      const [committed] = await Promise.allSettled([caller.commit()])
      const [outcome] = await backend.jobs.outcomes([leaseOf(first)])
      if (second) {
        assert.notEqual(outcome, 'settled')
        assert.equal(await settleOne(backend, second), true)
      } else {
        assert.equal(committed.status, 'fulfilled')
        assert.equal(outcome, 'settled')
        assert.equal((await find(backend, first.id)).state, 'completed')
      }
    },
  )

  test.runIf(sql.rowLocks)('an ack in an open transaction does not block other calls', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const lapsed = await runningJob(backend, { queue: 'lapsed' }, { leaseMs: shortMs })
    const mine = await runningJob(backend, { queue: 'a' })
    const other = await runningJob(backend, { queue: 'b' })
    const waiting = await addOne(backend, { queue: 'c' })
    const spare = await runningJob(backend, { queue: 'd' })
    await caller.begin()
    await backend.jobs.settleIn(caller.tx, verdictOf(mine))

    const soon = <T>(what: string, promise: Promise<T>) => within(2_000, what, promise)
    const renewed = await soon('renewing', backend.jobs.renew([leaseOf(other), leaseOf(mine)], 2 * longMs))
    assert.ok(renewed.some(({ jobId }) => jobId === other.id))
    await lapse(backend, lapsed)
    await soon('taking back', backend.jobs.reclaim(10))
    assert.deepEqual(ids(await soon('claiming', claim(backend, { queues: ['lapsed'] }))), [lapsed.id])
    const claimed = await soon('claiming', claim(backend, { queues: ['a', 'b', 'c'] }))
    assert.deepEqual(ids(claimed), [waiting])
    assert.equal(await soon('settling', settleOne(backend, spare)), true)
    await soon('adding', backend.jobs.add([aJob({ queue: 'a' })]))
    const looked = [
      backend.jobs.stats(),
      backend.jobs.list({ limit: 5 }),
      backend.jobs.cancelRequests([leaseOf(mine)]),
    ]
    await soon('looking', Promise.all(looked))
    await soon('pruning', backend.jobs.prune({ olderThanMs: longMs, limit: 10 }))

    await caller.commit()
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(mine), leaseOf(other)]), ['settled', 'held'])
  })

  test('a connection that is not in a transaction is refused', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    const refused = { code: 'transaction_required' }
    await assert.rejects(backend.jobs.settleIn(caller.tx, verdictOf(claimed)), refused)
    await assert.rejects(backend.jobs.add([aJob()], caller.tx), refused)
    await caller.begin()
    await caller.commit()
    await assert.rejects(backend.jobs.settleIn(caller.tx, verdictOf(claimed)), refused)
    await assert.rejects(backend.jobs.add([aJob()], caller.tx), refused)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    assert.equal((await backend.jobs.list({ limit: 10 })).length, 1)
  })

  test('a value that is no transaction of this engine is refused', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    for (const thing of [
      null,
      7,
      'BEGIN',
      true,
      {},
      [],
      () => 1,
      Symbol('tx'),
      { query: 1 },
      { isTransaction: 1 },
    ]) {
      const refused = { code: 'invalid_argument' }
      await assert.rejects(backend.jobs.settleIn(thing, verdictOf(claimed)), refused)
      if (thing !== null) await assert.rejects(backend.jobs.add([aJob()], thing), refused)
    }
    await assert.rejects(backend.jobs.settleIn(undefined, verdictOf(claimed)), { code: 'invalid_argument' })
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    assert.equal((await backend.jobs.list({ limit: 10 })).length, 1)
  })

  test.runIf(sql.pool)(
    'a pool is refused: each of its statements may run on another connection',
    async () => {
      await using backend = await open()
      const claimed = await runningJob(backend)
      await using own = await sql.pool!()
      await assert.rejects(backend.jobs.settleIn(own.pool, verdictOf(claimed)), { code: 'invalid_argument' })
      await assert.rejects(backend.jobs.add([aJob()], own.pool), { code: 'invalid_argument' })
      assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    },
  )

  test.runIf(!sql.spansDatabases)(
    'a transaction on another database is refused, also when that database has a store',
    async () => {
      const namespace = aNamespace()
      await using backend = await open({ namespace })
      const claimed = await runningJob(backend)
      await using elsewhere = await sql.ownDatabase()
      await using caller = await sql.connect(elsewhere.url)
      const refused = async (expected: object) => {
        await caller.begin()
        await assert.rejects(backend.jobs.settleIn(caller.tx, verdictOf(claimed)), expected)
        await caller.rollback()
        await caller.begin()
        await assert.rejects(backend.jobs.add([aJob()], caller.tx), expected)
        await caller.rollback()
      }
      await refused(Error)
      const foreign = await open({ namespace, url: elsewhere.url })
      try {
        await refused({ code: 'wrong_database' })
        assert.deepEqual(await foreign.jobs.list({ limit: 10 }), [])
      } finally {
        await foreign.close()
      }
      assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    },
  )

  test.runIf(sql.spansDatabases)(
    'a transaction on another database of the same server commits together with the store',
    async () => {
      const namespace = aNamespace()
      await using backend = await open({ namespace })
      const claimed = await runningJob(backend)
      await using elsewhere = await sql.ownDatabase()
      const foreign = await open({ namespace, url: elsewhere.url })
      try {
        await using caller = await sql.connect(elsewhere.url)
        await caller.exec('CREATE TABLE orders (id INT PRIMARY KEY)')
        const next = aJob({ queue: 'next' })
        const pay = async () => {
          await caller.begin()
          await caller.exec('INSERT INTO orders (id) VALUES (?)', 1)
          assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(claimed)), true)
          await backend.jobs.add([next], caller.tx)
        }
        await pay()
        await caller.rollback()
        assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
        assert.equal(await backend.jobs.find(next.id), undefined)
        await pay()
        await caller.commit()
        assert.equal((await caller.exec('SELECT id FROM orders')).length, 1)
        assert.equal((await find(backend, claimed.id)).state, 'completed')
        assert.equal((await find(backend, next.id)).state, 'ready')
        assert.deepEqual(await foreign.jobs.list({ limit: 10 }), [])
      } finally {
        await foreign.close()
      }
    },
  )

  test('a job with a cancellation request ends in a transaction as it does outside', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const [nacked, acked] = [
      await runningJob(backend, { queue: 'a' }),
      await runningJob(backend, { queue: 'b' }),
    ]
    await backend.jobs.cancel(nacked.id)
    await backend.jobs.cancel(acked.id)
    await caller.begin()
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(nacked, { state: 'ready' })), true)
    assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(acked)), true)
    await caller.commit()
    assert.equal((await find(backend, nacked.id)).state, 'cancelled')
    const { state, cancelIgnored } = await find(backend, acked.id)
    assert.deepEqual([state, cancelIgnored], ['completed', true])
  })

  test('one transaction adds the next job and acks this one, or does neither', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const claimed = await runningJob(backend)
    const next = aJob({ queue: 'next' })
    await caller.begin()
    await backend.jobs.add([next], caller.tx)
    await backend.jobs.settleIn(caller.tx, verdictOf(claimed))
    await caller.rollback()
    assert.equal(await backend.jobs.find(next.id), undefined)

    await caller.begin()
    await backend.jobs.add([next], caller.tx)
    await backend.jobs.settleIn(caller.tx, verdictOf(claimed))
    await caller.commit()
    assert.equal((await find(backend, next.id)).state, 'ready')
    assert.equal((await find(backend, claimed.id)).state, 'completed')
  })
}
