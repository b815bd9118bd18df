import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Backend } from '../../../src/storage/backend.ts'
import { within } from '../../support/deadline.ts'
import type { Caller } from '../callers.ts'
import { aNamespace, type SqlSide } from '../candidates.ts'
import { runningJob, verdictOf } from '../jobs/making.ts'
import type { GuardsCandidate } from './opening.ts'
import { digest, GuardStage, longMs, shortMs } from './stage.ts'

/** A step in a caller's transaction counts when that commits. */
export function transactionsContract({ open, sql }: GuardsCandidate): void {
  if (sql) inCallers(open, sql)
  else
    test('an engine without transactions refuses a transaction', async () => {
      await using backend = await open()
      const stage = new GuardStage(backend)
      const { token } = await stage.run('a')
      const refused = { code: 'transaction_unsupported' }
      const tx = {}
      await assert.rejects(stage.claim('b', {}, tx), refused)
      await assert.rejects(stage.settle('a', token, 'done', { tx }), refused)
      await assert.rejects(stage.store.renew({ space: 'once', key: 'a', token }, longMs, tx), refused)
      await assert.rejects(stage.seen('w', { tx }), refused)
      assert.equal(await stage.status('a'), 'running')
      assert.equal(await stage.status('b'), 'run')
      assert.equal(await stage.seen('w'), false)
    })
}

function inCallers(open: GuardsCandidate['open'], sql: SqlSide): void {
  const rolledBack = async (caller: Caller, work: () => Promise<unknown>) => {
    await caller.begin()
    await work()
    await caller.rollback()
  }
  const committed = async (caller: Caller, work: () => Promise<unknown>) => {
    await caller.begin()
    await work()
    await caller.commit()
  }

  test('a rollback undoes claims, ends, renewals and windows of its transaction', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const { tx } = caller
    const stage = new GuardStage(backend)
    await rolledBack(caller, () => stage.run('a', {}, tx))
    assert.deepEqual(await stage.all(), [])
    const { token } = await stage.run('a')
    const before = await stage.look('a')
    for (const end of ['done', 'failed', 'released'] as const)
      await rolledBack(caller, async () =>
        assert.equal(await stage.settle('a', token, end, { result: null, tx }), true),
      )
    const ref = { space: 'once', key: 'a', token }
    await rolledBack(caller, async () => assert.ok(await stage.store.renew(ref, 2 * longMs, tx)))
    assert.deepEqual(await stage.look('a'), before)
    await rolledBack(caller, async () => assert.equal(await stage.seen('w', { tx }), false))
    assert.equal(await stage.seen('w'), false)
    assert.equal(await stage.settle('a', token, 'done'), true)
  })

  test('claims, ends, renewals and windows of a transaction take effect at its commit', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const { tx } = caller
    const stage = new GuardStage(backend)
    let token = ''
    await committed(caller, async () => {
      token = (await stage.run('a', {}, tx)).token
      assert.equal((await stage.claim('a', {}, tx)).status, 'running', 'it sees itself')
      assert.equal(await stage.seen('w', { tx }), false)
      assert.equal(await stage.seen('w', { tx }), true)
    })
    assert.equal(await stage.status('a'), 'running')
    assert.equal(await stage.seen('w'), true)
    await committed(caller, async () => {
      const end = await stage.store.renew({ space: 'once', key: 'a', token }, 2 * longMs, tx)
      assert.ok(end !== undefined)
      assert.equal(await stage.settle('a', token, 'done', { result: '1', tx }), true)
      assert.deepEqual(await stage.claim('a', {}, tx), { status: 'done', result: '1' })
    })
    assert.deepEqual(await stage.claim('a'), { status: 'done', result: '1' })
  })

  test('a transaction claims many keys, and a rollback releases all of them', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const stage = new GuardStage(backend)
    const asks = Array.from({ length: 100 }, (_, n) => ({
      ...{ space: 'once', key: `event ${n}`, leaseMs: longMs, keepMs: longMs },
      ...{ mode: 'at-least-once' as const, fingerprint: null },
    }))
    await rolledBack(caller, () => stage.store.claim(asks, caller.tx))
    await committed(caller, async () => {
      const standings = await stage.store.claim(asks, caller.tx)
      assert.ok(standings.every(({ status }) => status === 'run'))
    })
    assert.equal((await stage.all()).length, 100)
  })

  for (const end of ['commit', 'rollback'] as const)
    test(`a caller that claims a key of an open transaction waits for its ${end}`, async () => {
      const namespace = aNamespace()
      await using backend = await open({ namespace })
      await using other = await open({ namespace })
      await using caller = await sql.connect()
      const [stage, elsewhere] = [new GuardStage(backend), new GuardStage(other)]
      await caller.begin()
      await stage.run('a', {}, caller.tx)
      assert.equal(await stage.seen('w', { tx: caller.tx }), false)
      const waiting = Promise.all([elsewhere.status('a'), elsewhere.seen('w')])
      waiting.catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, 30))
      await caller[end]()
      const answers = await within(10_000, 'the one who waits', waiting)
      assert.deepEqual(answers, end === 'commit' ? ['running', true] : ['run', false])
    })

  test("time in a transaction is the time of the call, not of the transaction's start", async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const stage = new GuardStage(backend)
    const leaseMs = shortMs
    const { token } = await stage.run('a', { leaseMs })
    await stage.seen('w', { windowMs: leaseMs })
    await caller.begin()
    await caller.exec('SELECT 1')
    await new Promise((resolve) => setTimeout(resolve, leaseMs + 50))
    assert.equal(await stage.settle('a', token, 'done', { tx: caller.tx }), false)
    assert.equal((await stage.run('a', {}, caller.tx)).attempt, 2)
    assert.equal(await stage.seen('w', { tx: caller.tx }), false)
    await caller.commit()
  })

  test.runIf(sql.rowLocks)('a transaction sees keys that others committed after it began', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const stage = new GuardStage(backend)
    await caller.begin()
    // A plain read in a repeatable-read transaction would find none of this.
    await caller.exec('SELECT COUNT(*) AS n FROM once_guard')
    await caller.exec('SELECT COUNT(*) AS n FROM once_window')
    const { token } = await stage.run('a')
    await stage.settle('a', token, 'done', { result: '1' })
    const running = await stage.run('b')
    await stage.seen('w')
    assert.deepEqual(await stage.claim('a', {}, caller.tx), { status: 'done', result: '1' })
    assert.equal((await stage.claim('b', {}, caller.tx)).status, 'running')
    assert.deepEqual(
      await stage.store.seen([{ window: digest('w'), value: '', windowMs: longMs }], caller.tx),
      [true],
    )
    assert.equal(await stage.settle('b', running.token, 'done', { tx: caller.tx }), true)
    await caller.commit()
    assert.equal(await stage.status('b'), 'done')
  })

  test("a job's transaction claims and settles a key, with tx or tx.raw", async () => {
    await using opened = await open()
    const backend = opened as Backend
    const stage = new GuardStage(backend)
    for (const way of ['tx', 'raw'] as const) {
      const job = await runningJob(backend, { queue: way })
      await backend.jobs.transact(
        async (tx) => {
          const { token } = await stage.run(way, {}, way === 'tx' ? tx : tx.raw)
          assert.equal(
            await stage.settle(way, token, 'done', { result: '1', tx: way === 'tx' ? tx : tx.raw }),
            true,
          )
          return verdictOf(job)
        },
        { timeoutMs: 5_000 },
      )
      assert.deepEqual(await stage.claim(way), { status: 'done', result: '1' })
    }
  })

  test('a value that is no transaction is refused', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    for (const tx of [{}, 7, 'tx'])
      await assert.rejects(stage.claim('a', {}, tx), (error: { code?: string }) => {
        assert.ok(error.code === 'invalid_argument' || error.code === 'transaction_unsupported', error.code)
        return true
      })
    assert.deepEqual(await stage.all(), [])
  })
}
