import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { addLocked, addNeeding, aLock } from '../dependencies/making.ts'
import { addOne, claimOne, endedJob, find, settleOne } from '../jobs/making.ts'

/** The store keeps the times in which a job was blocked. */
export function blockingContract({ open }: Candidate): void {
  test('a job that was never blocked has no blocked times', async () => {
    await using backend = await open()
    assert.deepEqual(await backend.dependencies.blocks(await addOne(backend)), [])
    assert.deepEqual(await backend.dependencies.blocks('unknown'), [])
  })

  test('a job with dependencies counts as blocked from add until its last dependency completes', async () => {
    await using backend = await open()
    const others = [await endedJob(backend, 'completed'), await endedJob(backend, 'completed')]
    const id = await addNeeding(backend, others, { queue: 'later' })
    const { createdAt } = await find(backend, id)
    const lasting = [{ cause: 'dependencies', startedAt: createdAt, endedAt: null }]
    assert.deepEqual(await backend.dependencies.blocks(id), lasting)
    await backend.dependencies.meet([{ jobId: id, dependencyId: others[0]! }])
    assert.deepEqual(await backend.dependencies.blocks(id), lasting)
    await backend.dependencies.meet([{ jobId: id, dependencyId: others[1]! }])
    const [block, ...more] = await backend.dependencies.blocks(id)
    assert.deepEqual([block?.cause, block?.startedAt, more], ['dependencies', createdAt, []])
    assert.ok(block!.endedAt! >= createdAt)
  })

  test('a wait for dependencies and a wait for the lock are two blocked times, one after the other', async () => {
    await using backend = await open()
    const other = await endedJob(backend, 'completed')
    const id = await addNeeding(backend, [other], { queue: 'later' }, aLock)
    await backend.dependencies.meet([{ jobId: id, dependencyId: other }])
    const [first, second] = await backend.dependencies.blocks(id)
    assert.deepEqual([first?.cause, second?.cause, second?.endedAt], ['dependencies', 'lock', null])
    assert.equal(second!.startedAt, first!.endedAt)
    await backend.dependencies.grant({ jobId: id, askNo: 1, fence: 7 })
    const blocks = await backend.dependencies.blocks(id)
    assert.equal(blocks.length, 2)
    assert.deepEqual([blocks[1]!.cause, blocks[1]!.startedAt], ['lock', first!.endedAt])
    assert.ok(blocks[1]!.endedAt! >= blocks[1]!.startedAt)
  })

  test('each wait for the lock is a separate blocked time; the last 50 are kept', async () => {
    await using backend = await open()
    const jobId = await addLocked(backend, { maxAttempts: 100 })
    for (let askNo = 1; askNo <= 52; askNo++) {
      assert.ok(await backend.dependencies.grant({ jobId, askNo, fence: askNo }))
      if (askNo < 52) assert.equal(await backend.dependencies.blockAgain({ jobId, askNo }), true)
    }
    const blocks = await backend.dependencies.blocks(jobId)
    assert.equal(blocks.length, 50)
    assert.ok(blocks.every(({ cause, endedAt }) => cause === 'lock' && endedAt !== null))
    const starts = blocks.map(({ startedAt }) => startedAt)
    assert.deepEqual(
      starts,
      starts.toSorted((a, b) => a - b),
    )
  }, 30_000)

  test('removing a job removes its blocked times', async () => {
    await using backend = await open()
    const jobId = await addLocked(backend)
    await backend.dependencies.grant({ jobId, askNo: 1, fence: 1 })
    const claimed = await claimOne(backend)
    await settleOne(backend, claimed)
    assert.equal((await backend.dependencies.blocks(jobId)).length, 1)
    await backend.jobs.remove([jobId])
    assert.deepEqual(await backend.dependencies.blocks(jobId), [])
  })
}
