import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import type { Candidate } from '../candidates.ts'
import { addOne, aJob, claim, find, ids, longMs, runningJob } from '../jobs/making.ts'
import { addLocked, addNeeding, aLock, dependenciesOf, lockOf } from './making.ts'

/** A job with dependencies is stored as waiting, together with them. */
export function addingContract({ open }: Candidate): void {
  test('a job that depends on other jobs or on a lock waits and is not claimed', async () => {
    await using backend = await open()
    const needed = await addOne(backend, { queue: 'other' })
    const waiting = [
      await addNeeding(backend, [needed]),
      await addNeeding(backend, ['unknown'], { due: { delayMs: longMs } }),
      await addLocked(backend, { priority: 9 }),
      await addNeeding(backend, [needed], { due: { runAt: 1 } }, aLock),
    ]
    assert.deepEqual(await claim(backend), [])
    for (const id of waiting) {
      const job = await find(backend, id)
      assert.deepEqual([job.state, job.attempt, job.finishedAt], ['waiting', 0, null])
      assert.equal('dependsOn' in job, false)
    }
    assert.deepEqual(ids(await backend.jobs.list({ state: 'waiting', limit: 10 })).sort(), waiting.toSorted())
    assert.deepEqual(await backend.jobs.list({ state: 'ready', queue: 'mail', limit: 10 }), [])
    const [mail] = await backend.jobs.stats()
    assert.deepEqual([mail!.queue, mail!.waiting, mail!.ready, mail!.scheduled], ['mail', 4, 0, 0])
    assert.equal(mail!.oldestReadyAt, null)
  })

  test('the dependencies of a job are stored as the caller gave them', async () => {
    await using backend = await open()
    const [one, two] = [await addOne(backend), await addOne(backend)]
    const lock = { operation: '刷'.repeat(191), resource: '😀'.repeat(191) }
    const id = await addNeeding(backend, [two, one], {}, lock)
    const dependencies = [one, two].sort().map((dependencyId) => ({ jobId: id, dependencyId }))
    assert.deepEqual(await backend.dependencies.unmet({ limit: 10 }), dependencies)
    // The job has not requested its lock yet.
    assert.equal(await lockOf(backend, id), undefined)
    assert.deepEqual(await backend.dependencies.fences([id]), [{ askNo: 1, fence: null }])
    await backend.dependencies.meet(dependencies)
    const { operation, resource, askNo, fence, state } = (await lockOf(backend, id))!
    assert.deepEqual({ operation, resource, askNo, fence }, { ...lock, askNo: 1, fence: null })
    assert.equal(state, 'waiting')
  })

  test('jobs of one call may depend on each other, in any order', async () => {
    await using backend = await open()
    const [a, b, c] = [createId(), createId(), createId()]
    await backend.jobs.add([
      aJob({ id: c, dependsOn: dependenciesOf({ jobs: [a, b] }) }),
      aJob({ id: a }),
      aJob({ id: b, dependsOn: dependenciesOf({ jobs: [a], lock: aLock }) }),
    ])
    assert.deepEqual(ids(await claim(backend)), [a])
    assert.deepEqual(
      (await backend.dependencies.around(a, 10)).dependents.map(({ id }) => id).sort(),
      [b, c].sort(),
    )
  })

  test('a duplicate stores no dependencies; a dependent of it depends on the existing job', async () => {
    await using backend = await open()
    const held = await addNeeding(backend, ['unknown'], { uniqueKey: 'k' })
    const running = await runningJob(backend, { uniqueKey: 'r', queue: 'other' })
    const [again, more, twin, needing] = [createId(), createId(), createId(), createId()]
    const added = await backend.jobs.add([
      aJob({ id: again, uniqueKey: 'k', dependsOn: dependenciesOf({ jobs: ['unheard'], lock: aLock }) }),
      aJob({ id: needing, dependsOn: dependenciesOf({ jobs: [again, more, twin, 'elsewhere'] }) }),
      aJob({ id: more, uniqueKey: 'k' }),
      aJob({ id: twin, uniqueKey: 'r', queue: 'other' }),
    ])
    assert.deepEqual(added, [
      { id: held, duplicate: true },
      { id: needing, duplicate: false },
      { id: held, duplicate: true },
      { id: running.id, duplicate: true },
    ])
    const dependencies = await backend.dependencies.unmet({ limit: 10 })
    assert.deepEqual(
      dependencies.map(({ jobId, dependencyId }) => `${jobId} ${dependencyId}`).sort(),
      [`${held} unknown`, ...[held, running.id, 'elsewhere'].map((id) => `${needing} ${id}`)].sort(),
    )
    assert.deepEqual(await backend.dependencies.fences([again, held]), [undefined, undefined])
    // A waiting job has its unique key.
    assert.deepEqual(await backend.jobs.add([aJob({ uniqueKey: 'k' })]), [{ id: held, duplicate: true }])
  })

  test('when one job of a call is refused, the call stores no job and no dependency', async () => {
    await using backend = await open()
    if (backend.name === 'memory') return
    const jobs = [
      aJob({ dependsOn: dependenciesOf({ jobs: ['a'], lock: aLock }) }),
      aJob({ id: null as unknown as string, dependsOn: dependenciesOf({ jobs: ['b'] }) }),
    ]
    await assert.rejects(backend.jobs.add(jobs))
    assert.deepEqual(await backend.dependencies.unmet({ limit: 10 }), [])
    assert.deepEqual(await backend.dependencies.fences([jobs[0]!.id]), [undefined])
    assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
  })

  test('many jobs with dependencies are added in one call', async () => {
    await using backend = await open()
    const jobs = Array.from({ length: 500 }, (_, at) =>
      aJob({
        dependsOn: dependenciesOf({
          jobs: at % 2 ? ['x', `dependency ${at}`] : [],
          lock: at % 2 ? null : aLock,
        }),
      }),
    )
    await backend.jobs.add(jobs)
    assert.equal((await backend.dependencies.unmet({ limit: 1_000 })).length, 500)
    assert.equal((await backend.dependencies.tend({ limit: 1_000, tendMs: longMs })).length, 250)
    assert.deepEqual(await claim(backend), [])
  })

  test('a run of a schedule may wait for a lock', async () => {
    await using backend = await open()
    const seen = await backend.schedules.put({ name: 's', doc: '{}', isPaused: false, nextAt: 1 }, 0)
    const job = aJob({ dependsOn: dependenciesOf({ lock: aLock }) })
    await backend.schedules.fire({
      ...{ name: 's', seen: seen!, force: false, nextAt: null, slotAt: 1 },
      jobs: [job],
    })
    assert.equal((await find(backend, job.id)).state, 'waiting')
    assert.equal((await lockOf(backend, job.id))?.askNo, 1)
  })
}
