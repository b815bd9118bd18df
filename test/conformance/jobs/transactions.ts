import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { StoreTransaction, Verdict } from '../../../src/jobs/index.ts'
import { within } from '../../support/deadline.ts'
import type { Candidate } from '../candidates.ts'
import { aJob, find, lapse, lapsedJob, leaseOf, runningJob, settleOne, shortMs, verdictOf } from './making.ts'

const soon = { timeoutMs: 5_000 }

/** The store's own transactions: the rows of `work` and the end of its job are committed together, or not at all. */
export function transactionsContract({ open, sql }: Candidate): void {
  test('a transaction settles its job with the verdict that its work returns', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await backend.jobs.transact(async () => verdictOf(claimed, { result: '{"ok":true}', ranMs: 5 }), soon)
    const { state, result } = await find(backend, claimed.id)
    assert.deepEqual([state, result], ['completed', '{"ok":true}'])
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['settled'])
  })

  test.skipIf(!sql)('the work of a transaction can add the next job, by tx or by tx.raw', async () => {
    await using backend = await open()
    for (const way of ['tx', 'raw'] as const) {
      const claimed = await runningJob(backend)
      const next = aJob({ queue: 'next' })
      const thrown = new Error('rolled back')
      const work = async (tx: StoreTransaction, end: () => Verdict) => {
        await backend.jobs.add([next], way === 'tx' ? tx : tx.raw)
        return end()
      }
      const fail = () => {
        throw thrown
      }
      await assert.rejects(
        backend.jobs.transact((tx) => work(tx, fail), soon),
        (error) => error === thrown,
      )
      assert.equal(await backend.jobs.find(next.id), undefined)
      await backend.jobs.transact((tx) => work(tx, () => verdictOf(claimed)), soon)
      assert.equal((await find(backend, next.id)).state, 'ready')
    }
  })

  test('a transaction without a time-out has unlimited time', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await backend.jobs.transact(
      async () => {
        await sleep(60)
        return verdictOf(claimed)
      },
      { timeoutMs: 0 },
    )
    assert.equal((await find(backend, claimed.id)).state, 'completed')
  })

  test('when the work throws, the transaction throws that error and the job is still held', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const error = new Error('the card was declined')
    const work = async () => {
      throw error
    }
    await assert.rejects(backend.jobs.transact(work, soon), (thrown) => thrown === error)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('an error of the handler that looks like a lost connection is thrown unchanged', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const refused = Object.assign(new Error('connect ECONNREFUSED 192.0.2.1:443'), { code: 'ECONNREFUSED' })
    const work = () => Promise.reject(refused)
    await assert.rejects(backend.jobs.transact(work, soon), (thrown) => thrown === refused)
    const answers = await backend.jobs.transactAll([work, async () => verdictOf(claimed)], soon)
    assert.deepEqual([answers[0]?.error === refused, answers[1]], [true, undefined])
  })

  test('the work may throw a value that is not an error', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const work = () => Promise.reject(undefined)
    const [caught] = await Promise.allSettled([backend.jobs.transact(work, soon)])
    assert.deepEqual(caught, { status: 'rejected', reason: undefined })
    assert.deepEqual(await backend.jobs.transactAll([work, async () => verdictOf(claimed)], soon), [
      { error: undefined },
      undefined,
    ])
  })

  test('a transaction whose lease expires meanwhile fails with a lost lease', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, {}, { leaseMs: shortMs })
    const work = async () => {
      await lapse(backend, claimed)
      return verdictOf(claimed)
    }
    await assert.rejects(backend.jobs.transact(work, soon), { code: 'lease_lost' })
    assert.equal((await find(backend, claimed.id)).state, 'ready')
  })

  test('a transaction that exceeds its time-out is rolled back, and its job is still held', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const work = async () => {
      await sleep(400)
      return verdictOf(claimed)
    }
    await assert.rejects(backend.jobs.transact(work, { timeoutMs: 60 }), { code: 'transaction_timeout' })
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('an aborted transaction throws the reason, and its job is still held', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const controller = new AbortController()
    const reason = new Error('shutting down')
    const work = async () => {
      controller.abort(reason)
      await sleep(200)
      return verdictOf(claimed)
    }
    const { signal } = controller
    await assert.rejects(backend.jobs.transact(work, { ...soon, signal }), (thrown) => thrown === reason)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['held'])

    let ran = false
    const late = async () => {
      ran = true
      return verdictOf(claimed)
    }
    await assert.rejects(backend.jobs.transact(late, { ...soon, signal }), (thrown) => thrown === reason)
    assert.equal(ran, false)
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('an aborted or timed-out transaction does not wait for work that never ends', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const never = () => Promise.withResolvers<never>().promise
    const controller = new AbortController()
    const reason = new Error('shutting down')
    const work = () => {
      setTimeout(() => controller.abort(reason), 20)
      return never()
    }
    const aborted = backend.jobs.transact(work, { timeoutMs: 10_000, signal: controller.signal })
    await assert.rejects(within(3_000, 'giving up', aborted), (thrown) => thrown === reason)
    const late = backend.jobs.transact(never, { timeoutMs: 50 })
    await assert.rejects(within(3_000, 'giving up', late), { code: 'transaction_timeout' })
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('a transaction ends a job with a cancellation request as settling does', async () => {
    await using backend = await open()
    const [nacked, acked] = [
      await runningJob(backend, { queue: 'a' }),
      await runningJob(backend, { queue: 'b' }),
    ]
    await backend.jobs.cancel(nacked.id)
    await backend.jobs.cancel(acked.id)
    await backend.jobs.transact(async () => verdictOf(nacked, { state: 'scheduled' }), soon)
    await backend.jobs.transact(async () => verdictOf(acked), soon)
    assert.equal((await find(backend, nacked.id)).state, 'cancelled')
    assert.equal((await find(backend, acked.id)).cancelIgnored, true)
  })

  test('several transactions under one commit are answered in order, each on its own', async () => {
    await using backend = await open()
    const lost = await lapsedJob(backend, { queue: 'lost' })
    const [a, b, c] = [
      await runningJob(backend, { queue: 'a' }),
      await runningJob(backend, { queue: 'b' }),
      await runningJob(backend, { queue: 'c' }),
    ]
    const error = new Error('b failed')
    const answers = await backend.jobs.transactAll(
      [
        async () => verdictOf(a),
        async () => {
          throw error
        },
        async () => verdictOf(lost),
        async () => verdictOf(c, { state: 'dead' }),
        async () => verdictOf(a),
      ],
      soon,
    )
    assert.equal(answers.length, 5)
    assert.equal(answers[0], undefined)
    assert.equal(answers[1]?.error, error)
    assert.equal(codeOf(answers[2]), 'lease_lost')
    assert.equal(answers[3], undefined)
    assert.equal(codeOf(answers[4]), 'lease_lost')
    assert.deepEqual(await backend.jobs.outcomes([a, b, c, lost].map(leaseOf)), [
      'settled',
      'held',
      'settled',
      'lost',
    ])
    assert.deepEqual(await backend.jobs.transactAll([], soon), [])
  })

  test('when several transactions together exceed their time-out, none of their work is kept', async () => {
    await using backend = await open()
    const [a, b] = [await runningJob(backend, { queue: 'a' }), await runningJob(backend, { queue: 'b' })]
    const works = [
      async () => verdictOf(a),
      async () => {
        await sleep(400)
        return verdictOf(b)
      },
    ]
    await assert.rejects(backend.jobs.transactAll(works, { timeoutMs: 80 }), { code: 'transaction_timeout' })
    assert.deepEqual(await backend.jobs.outcomes([a, b].map(leaseOf)), ['held', 'held'])
  })

  test.runIf(!sql)(
    'an engine without SQL refuses queries in a transaction and still ends the job',
    async () => {
      await using backend = await open()
      const claimed = await runningJob(backend)
      await backend.jobs.transact(async (tx) => {
        await assert.rejects(tx.query('SELECT 1'), { code: 'transaction_unsupported' })
        await assert.rejects(tx.sql`SELECT ${1}`, { code: 'transaction_unsupported' })
        return verdictOf(claimed)
      }, soon)
      assert.equal((await find(backend, claimed.id)).state, 'completed')
      await assert.rejects(backend.jobs.settleIn({}, verdictOf(claimed)), { code: 'transaction_unsupported' })
    },
  )
}

function codeOf(answer: undefined | { readonly error: unknown }): unknown {
  return (answer as undefined | { readonly error: { readonly code?: unknown } })?.error.code
}
