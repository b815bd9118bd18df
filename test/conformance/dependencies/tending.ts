import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, claimOne, longMs, settleOne, shortMs, until } from '../jobs/making.ts'
import { addGranted, addLocked, addNeeding, aLock } from './making.ts'

/** One resolver at a time tends a job that requests or holds its lock. */
export function tendingContract({ open, lend, isShared }: Candidate): void {
  test('one resolver at a time tends a job that requests its lock', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addLocked(backend)
    const lock = { jobId, ...aLock, askNo: 1, fence: null, isTaken: false, state: 'waiting', dueInMs: 0 }
    assert.equal(await dependencies.hasBlocked(), true)
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: longMs }), [lock])
    assert.equal(await dependencies.hasBlocked(), true, 'tended, but there')
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: longMs }), [])
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: shortMs, of: [jobId, 'unknown', jobId] }), [
      lock,
    ])
    await until('it is tended again', async () => {
      const [again] = await dependencies.tend({ limit: 10, tendMs: longMs })
      return again?.jobId === jobId
    })
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    assert.deepEqual(
      await dependencies.tend({ limit: 10, tendMs: longMs }),
      [{ ...lock, askNo: 2 }],
      'called anew',
    )
  })

  test('a job with unmet dependencies does not request its lock yet', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addNeeding(backend, ['a'], {}, aLock)
    await addOne(backend)
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: 0 }), [])
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: 0, of: [jobId] }), [])
    await dependencies.meet([{ jobId, dependencyId: 'a' }])
    assert.deepEqual(
      (await dependencies.tend({ limit: 10, tendMs: 0 })).map((lock) => lock.jobId),
      [jobId],
    )
  })

  test('the store knows whether any job waits for another job or for its lock', async () => {
    await using backend = await open()
    const { dependencies } = backend
    await addOne(backend)
    assert.equal(await dependencies.hasBlocked(), false)
    const jobId = await addNeeding(backend, ['a'])
    assert.equal(await dependencies.hasBlocked(), true)
    await dependencies.meet([{ jobId, dependencyId: 'a' }])
    assert.equal(await dependencies.hasBlocked(), false)
    await addLocked(backend)
    assert.equal(await dependencies.hasBlocked(), true)
  })

  test('the jobs that were tended longest ago come first, at most as many as asked', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const all = [await addLocked(backend), await addLocked(backend), await addLocked(backend)]
    const tend = async (limit: number, tendMs: number, of?: readonly string[]) =>
      (await dependencies.tend({ limit, tendMs, ...(of && { of }) })).map(({ jobId }) => jobId)
    const [first] = await tend(1, longMs)
    const rest = all.filter((id) => id !== first)
    // Tended for 0 ms, one after the other: each counts as untended since then.
    for (const id of [rest[1]!, first!, rest[0]!]) {
      assert.deepEqual(await tend(1, 0, [id]), [id])
      const now = Date.now()
      await until('the clock moves on', async () => Date.now() > now + 2)
    }
    assert.deepEqual(await tend(2, longMs), [rest[1], first])
    assert.deepEqual(await tend(10, longMs), [rest[0]])
    assert.deepEqual(await tend(10, longMs, []), [])
  })

  test('a tended lock comes with the present state of its job', async () => {
    await using backend = await open()
    const { dependencies, jobs } = backend
    const later = await addLocked(backend, { due: { delayMs: longMs } })
    const granted = await addGranted(backend)
    const running = await addGranted(backend, { queue: 'r' })
    await claimOne(backend, { queues: ['r'] })
    const ended = await addGranted(backend, { queue: 'e' })
    await settleOne(backend, await claimOne(backend, { queues: ['e'] }))
    const cancelled = await addLocked(backend)
    await jobs.cancel(cancelled)
    const tended = await dependencies.tend({ limit: 10, tendMs: 0 })
    const of = (id: string) => {
      const { state, dueInMs, fence } = tended.find(({ jobId }) => jobId === id)!
      return [state, dueInMs === 0, fence]
    }
    assert.equal(tended.length, 5)
    assert.deepEqual(of(later), ['waiting', false, null])
    const { dueInMs } = tended.find(({ jobId }) => jobId === later)!
    assert.ok(Number.isInteger(dueInMs) && dueInMs > longMs / 2 && dueInMs <= longMs, `${dueInMs}`)
    assert.deepEqual(of(granted), ['ready', true, 7])
    assert.deepEqual(of(running), ['running', true, 7])
    assert.deepEqual(of(ended), ['completed', true, 7])
    assert.deepEqual(of(cancelled).slice(0, 1), ['cancelled'])
  })

  test('resolvers that tend at once share the jobs', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    const all: string[] = []
    for (let at = 0; at < 12; at++) all.push(await addLocked(one))
    const taken = await Promise.all(
      [one, two, one, two].map(({ dependencies }) => dependencies.tend({ limit: 5, tendMs: longMs })),
    )
    const again = await one.dependencies.tend({ limit: 20, tendMs: longMs })
    assert.deepEqual([...taken.flat(), ...again].map(({ jobId }) => jobId).sort(), all.sort())
  })
}
