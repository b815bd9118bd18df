import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { claim, claimOne, find, ids, longMs, settleOne, until } from '../jobs/making.ts'
import { addGranted, addLocked, addNeeding, aLock, lockOf } from './making.ts'

/** A grant unblocks a job that still waits with that request; `blockAgain` makes it wait again. */
export function grantingContract({ open, lend, isShared }: Candidate): void {
  test('a job whose lock is granted is claimed, and the store returns its fence', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addLocked(backend, { queue: 'print' })
    const fence = Number.MAX_SAFE_INTEGER
    assert.equal(await dependencies.grant({ jobId, askNo: 1, fence }), 'print')
    assert.deepEqual(await dependencies.fences(['unknown', jobId]), [undefined, { askNo: 1, fence }])
    assert.equal((await claimOne(backend, { queues: ['print'] })).id, jobId)
  })

  test('a job whose lock is granted before its run time becomes scheduled', async () => {
    await using backend = await open()
    const jobId = await addLocked(backend, { due: { delayMs: longMs } })
    const { runAt } = await find(backend, jobId)
    assert.equal(await backend.dependencies.grant({ jobId, askNo: 1, fence: 1 }), 'mail')
    const job = await find(backend, jobId)
    assert.deepEqual([job.state, job.runAt], ['scheduled', runAt])
  })

  test('a late grant is refused', async () => {
    await using backend = await open()
    const { dependencies, jobs } = backend
    const grant = (jobId: string, askNo: number) => dependencies.grant({ jobId, askNo, fence: 9 })
    const jobId = await addLocked(backend)
    assert.equal(await grant(jobId, 2), undefined)
    assert.equal(await grant(jobId, 0), undefined)
    assert.equal(await grant('unknown', 1), undefined)
    assert.equal((await find(backend, jobId)).state, 'waiting')
    assert.equal(await grant(jobId, 1), 'mail')
    assert.equal(await dependencies.grant({ jobId, askNo: 1, fence: 10 }), undefined)
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 1, fence: 9 }])

    const cancelled = await addLocked(backend)
    await jobs.cancel(cancelled)
    const removed = await addLocked(backend)
    await jobs.remove([removed])
    const free = await addLocked(backend)
    await jobs.retry(free)
    const needing = await addNeeding(backend, ['a'], {}, aLock)
    for (const each of [cancelled, removed, free, needing]) assert.equal(await grant(each, 1), undefined)
    assert.deepEqual(await dependencies.states([cancelled, removed, free, needing]), [
      ...['cancelled', undefined, 'ready', 'waiting'],
    ])
    assert.deepEqual(await dependencies.fences([free]), [{ askNo: 1, fence: null }])
  })

  test('a job that is blocked again waits with the same run time and attempts', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addGranted(backend, { due: { runAt: 5_000 }, uniqueKey: 'k' })
    const first = await claimOne(backend)
    await settleOne(backend, first, { state: 'scheduled', delayMs: longMs, error: '{"message":"no"}' })
    const { runAt } = await find(backend, jobId)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    const job = await find(backend, jobId)
    assert.deepEqual([job.state, job.runAt, job.attempt], ['waiting', runAt, 1])
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 2, fence: null }])
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), false)
    assert.equal(await dependencies.grant({ jobId, askNo: 1, fence: 8 }), undefined)
    assert.equal(await dependencies.grant({ jobId, askNo: 2, fence: 8 }), 'mail')
    assert.equal((await find(backend, jobId)).state, 'scheduled')
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 2, fence: 8 }])
  })

  test('a ready job that is blocked again is not claimed', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addGranted(backend)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    assert.deepEqual(await claim(backend), [])
    assert.equal((await lockOf(backend, jobId))?.state, 'waiting')
    await dependencies.grant({ jobId, askNo: 2, fence: 8 })
    const again = await claimOne(backend)
    assert.deepEqual([again.id, again.attempt], [jobId, 1])
    assert.equal(await dependencies.blockAgain({ jobId: 'unknown', askNo: 1 }), false)
  })

  test('a job is blocked again only if its fence is the one the caller saw', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addLocked(backend)
    assert.equal(await dependencies.grant({ jobId, askNo: 1, fence: 7 }), 'mail')
    // A caller that read before the grant saw no fence, and a caller that read long ago saw another fence.
    for (const fence of [null, 6])
      assert.equal(await dependencies.blockAgain({ jobId, askNo: 1, fence }), false)
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 1, fence: 7 }])
    assert.equal((await find(backend, jobId)).state, 'ready')
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1, fence: 7 }), true)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 2, fence: 7 }), false)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 2, fence: null }), true)
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 3, fence: null }])
  })

  test('only one caller takes a fence, and a new grant has a new fence', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const waiting = await addLocked(backend)
    const jobId = await addGranted(backend)
    const of = ['unknown', jobId, waiting]
    const free = { askNo: 1, fence: null, isTaken: false }
    const taken = { askNo: 1, fence: 7, isTaken: true }
    assert.deepEqual(await dependencies.take([]), [])
    assert.equal((await lockOf(backend, jobId))?.isTaken, false)
    const first = await Promise.all([dependencies.take(of), dependencies.take(of)])
    assert.deepEqual(first.map(([, of]) => of?.isTaken).sort(), [false, true])
    assert.deepEqual(await dependencies.take(of), [undefined, taken, free])
    assert.equal((await lockOf(backend, jobId))?.isTaken, true)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1, fence: 7 }), true)
    assert.deepEqual(await dependencies.take([jobId]), [{ askNo: 2, fence: null, isTaken: false }])
    await dependencies.grant({ jobId, askNo: 2, fence: 9 })
    assert.deepEqual(await dependencies.take([jobId]), [{ askNo: 2, fence: 9, isTaken: false }])
  })

  test('a job that became due after its grant can also be blocked again', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addGranted(backend, { due: { delayMs: 20 } })
    await until('it is due', async () => (await find(backend, jobId)).state === 'ready')
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    assert.deepEqual(await claim(backend), [])
    assert.equal((await find(backend, jobId)).state, 'waiting')
    assert.equal((await lockOf(backend, jobId))?.dueInMs, 0)
  })

  test('blocking a running job again does not stop it; an ended job stays ended', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addGranted(backend)
    const running = await claimOne(backend)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    assert.equal((await find(backend, jobId)).state, 'running')
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 2, fence: null }])
    assert.equal(await settleOne(backend, running), true)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 2 }), true)
    assert.equal((await find(backend, jobId)).state, 'completed')
  })

  test('a lock request that was never granted can be replaced by the next one', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addLocked(backend)
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 1 }), true)
    assert.equal(await dependencies.grant({ jobId, askNo: 1, fence: 1 }), undefined)
    assert.equal((await lockOf(backend, jobId))?.askNo, 2)
    assert.equal(await dependencies.grant({ jobId, askNo: 2, fence: 2 }), 'mail')
  })

  test('a resting lock dependency is not tended until its job is blocked again', async () => {
    await using backend = await open()
    const { dependencies, jobs } = backend
    const jobId = await addGranted(backend)
    await dependencies.rest([jobId, 'unknown'])
    // It has not ended.
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 1, fence: 7 }])
    await settleOne(backend, await claimOne(backend), { state: 'dead' })
    await dependencies.rest([jobId])
    assert.deepEqual(await dependencies.fences([jobId]), [{ askNo: 2, fence: null }])
    assert.equal(await lockOf(backend, jobId), undefined)
    assert.deepEqual(await dependencies.tend({ limit: 10, tendMs: 0 }), [])

    assert.deepEqual(await jobs.retry(jobId), { outcome: 'ready' })
    assert.equal(await dependencies.blockAgain({ jobId, askNo: 2 }), true)
    assert.equal((await lockOf(backend, jobId))?.state, 'waiting')
    assert.equal(await dependencies.grant({ jobId, askNo: 3, fence: 11 }), 'mail')
    assert.deepEqual(ids(await claim(backend)), [jobId])
  })

  test('of concurrent grants and ends of one lock request, each takes effect at most once', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    for (let round = 0; round < 5; round++) {
      const jobId = await addLocked(one)
      const answers = await Promise.all([
        one.dependencies.grant({ jobId, askNo: 1, fence: 1 }),
        two.dependencies.grant({ jobId, askNo: 1, fence: 1 }),
        two.dependencies.blockAgain({ jobId, askNo: 1 }),
        one.dependencies.blockAgain({ jobId, askNo: 1 }),
      ])
      assert.equal(answers.filter((answer) => answer === true).length, 1)
      assert.ok(answers.filter((answer) => answer === 'mail').length <= 1)
      // The grant came first or not at all: once the request is over, the job waits.
      assert.deepEqual(await one.dependencies.fences([jobId]), [{ askNo: 2, fence: null }])
      assert.equal((await find(one, jobId)).state, 'waiting')
    }
  })
}
