import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, claim, claimOne, find, settleOne } from '../jobs/making.ts'
import { addGranted, addLocked, addNeeding, aLock } from './making.ts'

/** Removing a job deletes its dependencies; `prune` deletes the rest later. */
export function forgettingContract({ open }: Candidate): void {
  test('removing a job deletes its own dependencies; its dependents still depend on it', async () => {
    await using backend = await open()
    const { dependencies, jobs } = backend
    const gone = await addNeeding(backend, ['a'], { uniqueKey: 'k' }, aLock)
    const needing = await addNeeding(backend, [gone])
    assert.deepEqual(await jobs.remove([gone]), [gone])
    assert.deepEqual(await dependencies.unmet({ limit: 10 }), [{ jobId: needing, dependencyId: gone }])
    assert.deepEqual(await dependencies.fences([gone]), [undefined])
    assert.deepEqual(await dependencies.states([gone, needing]), [undefined, 'waiting'])
    assert.deepEqual((await dependencies.around(needing, 10)).dependencies, [
      { id: gone, state: undefined, isMet: false },
    ])
    await addOne(backend, { uniqueKey: 'k' })
  })

  test('pruning deletes only dependencies of removed jobs, at most as many as asked', async () => {
    await using backend = await open()
    const { dependencies, jobs } = backend
    const pruned: string[] = []
    for (const others of [['a', 'b'], ['c']]) {
      const jobId = await addNeeding(backend, others, {}, aLock)
      await dependencies.meet(others.map((dependencyId) => ({ jobId, dependencyId })))
      await dependencies.grant({ jobId, askNo: 1, fence: 1 })
      await settleOne(backend, await claimOne(backend))
      pruned.push(jobId)
    }
    // An end in the same millisecond would not be older than 0 ms.
    await sleep(5)
    assert.equal(await dependencies.prune(100), 0)
    assert.equal(await jobs.prune({ olderThanMs: 0, limit: 10 }), 2)
    const live = await addNeeding(backend, ['a'], {}, aLock)
    const ended = await addGranted(backend)
    await settleOne(backend, await claimOne(backend), { state: 'dead' })

    assert.equal(await dependencies.prune(2), 2)
    assert.equal(await dependencies.prune(100), 3)
    assert.equal(await dependencies.prune(100), 0)
    assert.deepEqual(await dependencies.fences(pruned), [undefined, undefined])
    assert.deepEqual(await dependencies.around(pruned[0]!, 10), { dependencies: [], dependents: [] })
    assert.deepEqual(await dependencies.unmet({ limit: 10 }), [{ jobId: live, dependencyId: 'a' }])
    assert.deepEqual(await dependencies.fences([live, ended]), [
      { askNo: 1, fence: null },
      { askNo: 1, fence: 7 },
    ])
  })

  test('namespaces do not see each other’s dependencies', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace()) as Backend
    const jobId = await addNeeding(backend, ['a'], {}, aLock)
    const locked = await addLocked(backend)
    assert.deepEqual(await other.dependencies.unmet({ limit: 10 }), [])
    assert.deepEqual(await other.dependencies.meet([{ jobId, dependencyId: 'a' }]), [])
    assert.deepEqual(await other.dependencies.fail([{ jobId, error: '{}' }]), [])
    assert.deepEqual(await other.dependencies.states([jobId]), [undefined])
    assert.deepEqual(await other.dependencies.around(jobId, 10), { dependencies: [], dependents: [] })
    assert.deepEqual(await other.dependencies.tend({ limit: 10, tendMs: 0 }), [])
    assert.deepEqual(await other.dependencies.tend({ limit: 10, tendMs: 0, of: [locked] }), [])
    assert.equal(await other.dependencies.grant({ jobId: locked, askNo: 1, fence: 1 }), undefined)
    assert.equal(await other.dependencies.blockAgain({ jobId: locked, askNo: 1 }), false)
    assert.deepEqual(await other.dependencies.fences([locked]), [undefined])
    await other.dependencies.rest([locked])
    assert.equal(await other.dependencies.prune(10), 0)
    assert.equal((await find(backend, jobId)).state, 'waiting')
    assert.deepEqual(await claim(backend), [])
    assert.equal((await backend.dependencies.unmet({ limit: 10 })).length, 1)
  })
}
