import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { StoreTransaction, Verdict } from '../../../src/jobs/index.ts'
import type { Candidate, SqlSide } from '../candidates.ts'
import { openLedger } from './ledger.ts'
import { find, lapse, lapsedJob, leaseOf, runningJob, shortMs, until, verdictOf } from './making.ts'

const soon = { timeoutMs: 5_000 }

/** Writes a note; the same template on every engine except the table's name, which no engine accepts as a value. */
async function write(tx: StoreTransaction, table: string, note: string): Promise<void> {
  const strings = Object.assign([`INSERT INTO ${table} (note) VALUES (`, ')'], { raw: [] })
  await tx.sql(strings, note)
}

/** The store keeps the rows of a handler's transaction if, and only if, it settles the job with them. */
export function withDataContract({ open, sql: side }: Candidate): void {
  const sql: SqlSide = side!

  test('the rows of the work and the end of the job are committed together', async () => {
    await using backend = await open()
    assert.equal(backend.traits.transactions, true)
    await using ledger = await openLedger(sql)
    const claimed = await runningJob(backend)
    await backend.jobs.transact(async (tx) => {
      await write(tx, ledger.table, 'paid')
      assert.ok(tx.raw)
      const { rows, rowCount } = await tx.query(`SELECT note FROM ${ledger.table}`)
      assert.deepEqual([rows.map(({ note }) => note), rowCount], [['paid'], 1])
      const missing = Object.assign([`DELETE FROM ${ledger.table} WHERE note = `, ''], { raw: [] })
      assert.equal((await tx.sql(missing, 'nothing')).rowCount, 0)
      assert.deepEqual(await ledger.logs(), [])
      return verdictOf(claimed)
    }, soon)
    assert.deepEqual(await ledger.logs(), ['paid'])
    assert.equal((await find(backend, claimed.id)).state, 'completed')
  })

  test('nothing is committed when the work throws, loses its lease, times out or is aborted', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const { jobs } = backend
    const claimed = await runningJob(backend, { queue: 'a' })
    const short = await runningJob(backend, { queue: 'b' }, { leaseMs: shortMs })
    const aborted = new AbortController()
    const writing = (then: () => Promise<unknown>, verdict = verdictOf(claimed)) => {
      return async (tx: StoreTransaction) => {
        await write(tx, ledger.table, 'never')
        await then()
        return verdict
      }
    }
    const throwing = writing(() => Promise.reject(new Error('no')))
    await assert.rejects(jobs.transact(throwing, soon), /^Error: no$/)
    const losing = writing(() => lapse(backend, short), verdictOf(short))
    await assert.rejects(jobs.transact(losing, soon), { code: 'lease_lost' })
    const slow = writing(() => sleep(300))
    await assert.rejects(jobs.transact(slow, { timeoutMs: 100 }), { code: 'transaction_timeout' })
    const stopped = writing(async () => aborted.abort(new Error('stop')))
    await assert.rejects(jobs.transact(stopped, { ...soon, signal: aborted.signal }), /^Error: stop$/)

    assert.deepEqual(await ledger.logs(), [])
    assert.deepEqual(await jobs.outcomes([leaseOf(claimed), leaseOf(short)]), ['held', 'lost'])
    await jobs.transact(
      writing(async () => undefined),
      soon,
    )
    assert.deepEqual(await ledger.logs(), ['never'])
  })

  test('work that continues after its transaction was rolled back cannot write', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const claimed = await runningJob(backend)
    const { promise: tried, resolve } = Promise.withResolvers<PromiseSettledResult<void>>()
    const work = async (tx: StoreTransaction) => {
      await sleep(150)
      const [late] = await Promise.allSettled([write(tx, ledger.table, 'too late')])
      resolve(late)
      return verdictOf(claimed)
    }
    await assert.rejects(backend.jobs.transact(work, { timeoutMs: 50 }), { code: 'transaction_timeout' })
    assert.equal((await tried).status, 'rejected')
    assert.deepEqual(await ledger.logs(), [])
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
  })

  test('a transaction that has ended refuses statements', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const claimed = await runningJob(backend)
    let kept: StoreTransaction | undefined
    await backend.jobs.transact(async (tx) => {
      kept = tx
      return verdictOf(claimed)
    }, soon)
    await assert.rejects(write(kept!, ledger.table, 'afterwards'))
    assert.deepEqual(await ledger.logs(), [])
  })

  test('a failed statement whose error is swallowed rolls back the whole work', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const claimed = await runningJob(backend)
    const [outcome] = await Promise.allSettled([
      backend.jobs.transact(async (tx) => {
        await write(tx, ledger.table, 'first')
        await assert.rejects(tx.query('SELECT * FROM no_such_table'))
        return verdictOf(claimed)
      }, soon),
    ])
    // Engines differ in whether such a transaction can still be committed; none may commit half of it.
    const isCommitted = outcome.status === 'fulfilled'
    assert.deepEqual(await ledger.logs(), isCommitted ? ['first'] : [])
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), [isCommitted ? 'settled' : 'held'])
  })

  test('under one commit, the rows of each work are kept or rolled back separately', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const lost = await lapsedJob(backend, { queue: 'lost' })
    const claimed = []
    for (const queue of ['a', 'b', 'c', 'd']) claimed.push(await runningJob(backend, { queue }))
    const [a, b, c, d] = claimed as [typeof lost, typeof lost, typeof lost, typeof lost]
    const noting = (note: string, verdict: Verdict, then?: (tx: StoreTransaction) => unknown) => {
      return async (tx: StoreTransaction) => {
        await write(tx, ledger.table, note)
        await then?.(tx)
        return verdict
      }
    }
    const answers = await backend.jobs.transactAll(
      [
        noting('a', verdictOf(a)),
        noting('b', verdictOf(b), () => Promise.reject(new Error('b'))),
        noting('lost', verdictOf(lost)),
        noting('c', verdictOf(c), (tx) => tx.query('SELECT * FROM no_such_table')),
        noting('d', verdictOf(d)),
      ],
      soon,
    )
    assert.deepEqual(
      answers.map((answer) => answer === undefined),
      [true, false, false, false, true],
    )
    assert.deepEqual(await ledger.logs(), ['a', 'd'])
    assert.deepEqual(await backend.jobs.outcomes([a, b, c, d].map(leaseOf)), [
      'settled',
      'held',
      'held',
      'settled',
    ])
  })

  test('ten transactions at once are all committed', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    const claimed = []
    for (let i = 0; i < 10; i++) claimed.push(await runningJob(backend, { queue: `q${i}` }))
    await Promise.all(
      claimed.map((job, i) =>
        backend.jobs.transact(async (tx) => {
          await write(tx, ledger.table, `n${i}`)
          await sleep(5)
          return verdictOf(job)
        }, soon),
      ),
    )
    assert.equal((await ledger.logs()).length, 10)
    assert.deepEqual(new Set(await backend.jobs.outcomes(claimed.map(leaseOf))), new Set(['settled']))
  })

  test.runIf(sql.rowLocks)(
    'a deadlock rolls back one of two transactions whole, with transaction_conflict',
    async () => {
      await using backend = await open()
      await using ledger = await openLedger(sql)
      const [a, b] = [await runningJob(backend, { queue: 'a' }), await runningJob(backend, { queue: 'b' })]
      const first = await runningJob(backend, { queue: 'setup' })
      await backend.jobs.transact(async (tx) => {
        await write(tx, ledger.table, 'x')
        await write(tx, ledger.table, 'y')
        return verdictOf(first)
      }, soon)
      let inside = 0
      const crossing = (job: typeof a, ...logs: [string, string]) =>
        backend.jobs.transact(async (tx) => {
          const change = (note: string) =>
            tx.sql(
              Object.assign([`UPDATE ${ledger.table} SET note = `, ' WHERE note = ', ''], { raw: [] }),
              `${note}!`,
              note,
            )
          await change(logs[0])
          inside++
          await until('both are inside', async () => inside === 2)
          await change(logs[1])
          return verdictOf(job)
        }, soon)
      const outcomes = await Promise.allSettled([crossing(a, 'x', 'y'), crossing(b, 'y', 'x')])
      const failed = outcomes.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[]
      assert.deepEqual(
        failed.map(({ reason }) => reason.code),
        ['transaction_conflict'],
      )
      assert.deepEqual(await ledger.logs(), ['x!', 'y!'])
      const expected = outcomes.map(({ status }) => (status === 'fulfilled' ? 'settled' : 'held'))
      assert.deepEqual(await backend.jobs.outcomes([leaseOf(a), leaseOf(b)]), expected)
    },
  )
}
