import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, aJob, claim, ids } from '../jobs/making.ts'
import { addMany, limitsOf, perKey } from './making.ts'

const whole = {
  concurrency: 10,
  rate: { count: 100, perMs: 60_000 },
  perKey: { concurrency: 2, rate: { count: 5, perMs: 1_000 } },
}

/** Limits belong to a queue, apply to all processes, and are independent of a pause. */
export function settingContract({ open, lend, isShared }: Candidate): void {
  test('the counts of a queue show its limits, also when it has no jobs', async () => {
    await using backend = await open()
    await addOne(backend, { queue: 'plain' })
    await backend.jobs.setLimits('mail', whole)
    const stats = await backend.jobs.stats()
    assert.deepEqual(
      stats.map(({ queue, paused, limits, ready }) => ({ queue, paused, limits, ready })),
      [
        { queue: 'mail', paused: false, limits: whole, ready: 0 },
        { queue: 'plain', paused: false, limits: null, ready: 1 },
      ],
    )
    await backend.jobs.setLimits('mail', perKey(3))
    assert.deepEqual(await limitsIn(backend, 'mail'), perKey(3))
    await addOne(backend)
    await backend.jobs.setLimits('mail', null)
    assert.equal(await limitsIn(backend, 'mail'), null)
    await backend.jobs.setLimits('never', null)
  })

  test('pausing a queue keeps its limits, and setting limits keeps it paused', async () => {
    await using backend = await open()
    const { jobs } = backend
    const all = await addMany(backend, 3)
    await jobs.pause('mail')
    await jobs.setLimits('mail', limitsOf({ concurrency: 1 }))
    assert.deepEqual(await claim(backend), [])
    const [paused] = await jobs.stats()
    assert.deepEqual([paused!.paused, paused!.limits], [true, limitsOf({ concurrency: 1 })])
    await jobs.resume('mail')
    assert.deepEqual(ids(await claim(backend)), all.slice(0, 1))
    const [resumed] = await jobs.stats()
    assert.deepEqual([resumed!.paused, resumed!.limits], [false, limitsOf({ concurrency: 1 })])
    await jobs.pause('mail')
    await jobs.setLimits('mail', null)
    assert.deepEqual(await claim(backend), [])
    await jobs.resume('mail')
    assert.deepEqual(ids(await claim(backend)), all.slice(1))
  })

  test('limits apply to one queue of one namespace', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace()) as Backend
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 1 }))
    for (const each of [backend, other]) {
      for (const queue of ['mail', 'MAIL']) await each.jobs.add([aJob({ queue }), aJob({ queue })])
    }
    assert.equal((await claim(backend)).length, 1)
    assert.equal((await claim(backend, { queues: ['MAIL'] })).length, 2)
    assert.equal((await claim(other)).length, 2)
    assert.deepEqual(
      (await other.jobs.stats()).map(({ limits }) => limits),
      [null, null],
    )
  })

  test.runIf(isShared)('limits apply to all processes at once', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = await lend(namespace)
    await addMany(one, 6)
    assert.equal((await claim(two, { limit: 1 })).length, 1)
    await one.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    assert.equal((await claim(two, { limit: 1 })).length, 1)
    assert.equal((await claim(one)).length, 1)
    assert.deepEqual(await claim(two), [])
    await two.jobs.setLimits('mail', null)
    assert.equal((await claim(one)).length, 3)
  })
}

async function limitsIn({ jobs }: Backend, queue: string): Promise<unknown> {
  return (await jobs.stats()).find((stats) => stats.queue === queue)?.limits ?? null
}
