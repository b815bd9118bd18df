import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../../src/jobs/index.ts'
import type { Candidate } from '../candidates.ts'
import { claim, ids, settleOne, until } from '../jobs/making.ts'
import { addInOrder, addMany, aJobOf, limitsOf, settleEach } from './making.ts'

/** At most as many jobs start per period as the rate says. */
export function ratesContract({ open }: Candidate): void {
  test('at most as many jobs start per period as the rate says, whether or not earlier ones have ended', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ rate: { count: 3, perMs: 3_600_000 } }))
    const all = await addMany(backend, 6)
    const first = await claim(backend, { limit: 2 })
    assert.deepEqual(ids(await claim(backend)), [all[2]])
    await settleEach(backend, first.slice(0, 1))
    // A start counts even if its attempt does nothing.
    await settleOne(backend, first[1]!, { state: 'ready', attempt: 0, handBackCount: 1 })
    assert.deepEqual(await claim(backend), [])
    await backend.jobs.setLimits('mail', limitsOf({ rate: { count: 4, perMs: 3_600_000 } }))
    assert.deepEqual(ids(await claim(backend)), [first[1]!.id])
    assert.deepEqual(await claim(backend), [])
  })

  test('jobs may start again when the period is over, and not before', async () => {
    await using backend = await open()
    const perMs = 150
    await backend.jobs.setLimits('mail', limitsOf({ rate: { count: 2, perMs } }))
    await addMany(backend, 5)
    const started: ClaimedRecord[] = []
    await until('all have started', async () => {
      started.push(...(await claim(backend)))
      return started.length === 5
    })
    const instants = started.map(({ startedAt }) => startedAt!)
    for (const at of [0, 1, 2]) assert.ok(instants[at + 2]! - instants[at]! >= perMs, `${instants}`)
  })

  test('each key has a rate, in addition to the rate of the queue', async () => {
    await using backend = await open()
    const perMs = 3_600_000
    const perKey = { concurrency: null, rate: { count: 2, perMs } }
    await backend.jobs.setLimits('mail', { ...limitsOf({ rate: { count: 5, perMs } }), perKey })
    const all = await addInOrder(backend, [
      ...[aJobOf('a'), aJobOf('a'), aJobOf('a'), aJobOf('b'), aJobOf('b')],
      ...[aJobOf('b'), aJobOf('c'), aJobOf('c')],
    ])
    const first = await claim(backend, { limit: 1 })
    await settleEach(backend, first)
    assert.deepEqual(ids(await claim(backend)), [all[1], all[3], all[4], all[6]])
    assert.deepEqual(await claim(backend), [])
  })

  test('a rate with a longer period also counts starts that were recorded under a shorter one', async () => {
    await using backend = await open()
    const perMs = 2_000
    await backend.jobs.setLimits('mail', limitsOf({ rate: { count: 2, perMs } }))
    await addMany(backend, 4)
    assert.equal((await claim(backend)).length, 2)
    await backend.jobs.setLimits('mail', limitsOf({ rate: { count: 2, perMs: 3_600_000 } }))
    await sleep(perMs + 100)
    // Deletes starts that no limit counts any more.
    await backend.jobs.prune({ olderThanMs: 3_600_000, limit: 10 })
    assert.deepEqual(await claim(backend), [])
  })

  test('a limit that is removed and set again starts counting from zero', async () => {
    await using backend = await open()
    const limits = limitsOf({ rate: { count: 1, perMs: 3_600_000 } })
    await backend.jobs.setLimits('mail', limits)
    await addMany(backend, 3)
    assert.equal((await claim(backend)).length, 1)
    assert.equal((await claim(backend)).length, 0)
    await backend.jobs.setLimits('mail', null)
    await backend.jobs.setLimits('mail', limits)
    assert.equal((await claim(backend)).length, 1)
    assert.equal((await claim(backend)).length, 0)
  })

  test('a rate and a concurrency limit hold together', async () => {
    await using backend = await open()
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 2, rate: { count: 3, perMs: 3_600_000 } }))
    const all = await addMany(backend, 5)
    const first = await claim(backend)
    assert.deepEqual(ids(first), all.slice(0, 2))
    await settleEach(backend, first)
    assert.deepEqual(ids(await claim(backend)), [all[2]])
  })
}
