import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  find,
  ids,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  shortMs,
  until,
  verdictOf,
} from '../jobs/making.ts'
import { addMany, fullQueue, limitsOf, settleEach } from './making.ts'

/** At most as many jobs of a queue run as its limit says, and every end of an attempt frees a slot. */
export function countingContract({ open }: Candidate): void {
  test('at most as many jobs run as the limit says, and each end frees a slot', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    const all = await addMany(backend, 8)
    const first = await claim(backend, { limit: 2 })
    const then = await claim(backend)
    assert.deepEqual(ids([...first, ...then]), all.slice(0, 3))
    assert.deepEqual(await claim(backend), [])

    await settleOne(backend, then[0]!)
    assert.deepEqual(ids(await claim(backend)), [all[3]])
    await settleEach(backend, first)
    assert.deepEqual(ids(await claim(backend)), all.slice(4, 6))
    assert.deepEqual(await claim(backend), [])
  })

  test('a job from a limited queue is marked as limited, and is otherwise like any job', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 5 }))
    const plain = await runningJob(backend, { queue: 'other' })
    const job = { payload: '{"é":1}', priority: 7, uniqueKey: 'k', maxAttempts: 3, meta: '{"tags":["a"]}' }
    const { limited, token, ...claimed } = await runningJob(backend, job, { workerId: 'w7' })
    assert.deepEqual([limited, 'limited' in plain], [true, false])
    assert.deepEqual(claimed, await find(backend, claimed.id))
    const { payload, priority, uniqueKey, maxAttempts, meta, attempt, workerId } = claimed
    assert.deepEqual({ payload, priority, uniqueKey, maxAttempts, meta }, job)
    assert.deepEqual([attempt, workerId], [1, 'w7'])
    const [renewed] = await backend.jobs.renew([{ jobId: claimed.id, token }], 2 * longMs)
    assert.ok(renewed!.leaseEndsAt > claimed.leaseEndsAt)
    assert.deepEqual(await backend.jobs.outcomes([{ jobId: claimed.id, token }]), ['held'])
  })

  for (const state of ['completed', 'dead', 'cancelled', 'scheduled', 'ready'] as const) {
    test(`an attempt that ends as ${state} frees its slot`, async () => {
      await using backend = await open()
      const { running, waiting } = await fullQueue(backend)
      assert.deepEqual(await claim(backend), [])
      await settleOne(backend, running, { state, delayMs: longMs })
      // The job that was handed back comes before later jobs.
      assert.deepEqual(ids(await claim(backend)), [state === 'ready' ? running.id : waiting])
    })
  }

  test('an expired lease frees its slot, and its job is claimed again', async () => {
    await using backend = await open()
    const { running } = await fullQueue(backend, { leaseMs: shortMs })
    let next: readonly { readonly id: string; readonly attempt: number }[] = []
    await until('a slot is free', async () => {
      next = await claim(backend)
      return next.length > 0
    })
    assert.deepEqual(
      next.map(({ id, attempt }) => [id, attempt]),
      [[running.id, 2]],
    )
    assert.equal(await settleOne(backend, running), false)
    assert.deepEqual(await claim(backend), [])
  })

  test('a renewed job keeps its slot, also after a cancellation request', async () => {
    await using backend = await open()
    const { running } = await fullQueue(backend, { leaseMs: 2_000 })
    await backend.jobs.renew([leaseOf(running)], longMs)
    await backend.jobs.cancel(running.id)
    await backend.jobs.retry(running.id)
    await backend.jobs.remove([running.id])
    assert.deepEqual(await claim(backend), [])
  })

  test('an attempt that a transaction of the store settles frees its slot', async () => {
    await using backend = await open()
    const { running, waiting } = await fullQueue(backend)
    if (!backend.traits.transactions && backend.name !== 'memory') return
    await backend.jobs.transact(async () => verdictOf(running), { timeoutMs: 5_000 })
    assert.deepEqual(ids(await claim(backend)), [waiting])
  })

  test('a limit that is set while jobs run counts those jobs', async () => {
    await using backend = await open()
    const all = await addMany(backend, 6)
    const running = await claim(backend, { limit: 3 })
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 4 }))
    assert.deepEqual(ids(await claim(backend)), all.slice(3, 4))
    await settleEach(backend, running.slice(0, 2))
    assert.deepEqual(ids(await claim(backend)), all.slice(4, 6))
  })

  test('a limit can be lowered below the number of running jobs, raised and removed', async () => {
    await using backend = await open()
    const all = await addMany(backend, 12)
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 4 }))
    const running = await claim(backend)
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 2 }))
    await settleEach(backend, running.slice(0, 2))
    assert.deepEqual(await claim(backend), [])
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    assert.deepEqual(ids(await claim(backend)), [all[4]])
    await backend.jobs.setLimits('mail', null)
    const rest = await claim(backend)
    assert.deepEqual(ids(rest), all.slice(5))
    assert.ok(rest.every((job) => !('limited' in job)))
    // A job that was claimed without limits counts once the queue has limits again.
    await addOne(backend)
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 10 }))
    assert.deepEqual(await claim(backend), [])
  })

  test('within the limit, a claim takes jobs by priority and then age, of its kinds only', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    const old = await addOne(backend, { due: { runAt: 1_000 } })
    const other = await addOne(backend, { kind: 'other', priority: 9 })
    const urgent = await addOne(backend, { priority: 5, due: { runAt: 3_000 } })
    await addOne(backend, { due: { runAt: 2_000 }, priority: -1 })
    assert.deepEqual(ids(await claim(backend, { kinds: ['welcome'], limit: 2 })), [urgent, old])
    assert.deepEqual(await claim(backend, { kinds: ['unknown'] }), [])
    assert.deepEqual(ids(await claim(backend)), [other])
    assert.deepEqual(await claim(backend), [])
  })

  test('scheduled jobs of a limited queue become due as in any queue', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 1 }))
    await addOne(backend, { due: { delayMs: longMs }, priority: 5 })
    assert.deepEqual(await claim(backend), [])
    const soon = await addOne(backend, { due: { delayMs: 20 } })
    await until('it is claimed', async () => (await claim(backend)).some(({ id }) => id === soon))
  })

  test('adding a job as claimed respects the limits', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 1 }))
    const request = { queues: ['mail'], kinds: null, workerId: 'w1', limit: 1, leaseMs: longMs }
    const { jobs } = backend
    for (const job of [aJob(), aJob()]) {
      assert.equal(await jobs.addClaimed?.(job, request), undefined)
      await jobs.add([job])
    }
    await claimOne(backend)
    assert.deepEqual(await claim(backend), [])
  })
}
