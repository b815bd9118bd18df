import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Unblocked } from '../../../src/jobs/index.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  endedJob,
  find,
  ids,
  lapsedJob,
  longMs,
  runningJob,
  settleOne,
} from '../jobs/making.ts'
import { addNeeding, aLock, dependenciesOf, lockOf } from './making.ts'

/** A job is unblocked once, when its last dependency is met. */
export function meetingContract({ open, lend, isShared }: Candidate): void {
  test('a job is unblocked by its last met dependency, and not before', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addNeeding(backend, ['a', 'b', 'c'])
    assert.deepEqual(await dependencies.meet([{ jobId, dependencyId: 'a' }]), [])
    assert.deepEqual(
      (await dependencies.unmet({ limit: 10 })).map(({ dependencyId }) => dependencyId),
      ['b', 'c'],
    )
    assert.equal((await find(backend, jobId)).state, 'waiting')
    const rest = [
      { jobId, dependencyId: 'c' },
      { jobId, dependencyId: 'b' },
      { jobId, dependencyId: 'b' },
    ]
    assert.deepEqual(await dependencies.meet(rest), [{ jobId, queue: 'mail', to: 'ready' }])
    assert.deepEqual(await dependencies.unmet({ limit: 10 }), [])
    assert.deepEqual(ids(await claim(backend)), [jobId])
    // Once the job is unblocked, a repetition does nothing.
    assert.deepEqual(await dependencies.meet(rest), [])
    assert.equal((await find(backend, jobId)).state, 'running')
  })

  test('an unblocked job is ready, is scheduled, or requests its lock', async () => {
    await using backend = await open()
    const now = await addNeeding(backend, ['a'], { due: { runAt: 1_000 } })
    const later = await addNeeding(backend, ['a'], { queue: 'q', due: { delayMs: longMs } })
    const locked = await addNeeding(backend, ['a'], { queue: 'l', due: { delayMs: longMs } }, aLock)
    const { runAt } = await find(backend, later)
    const unmet = [now, later, locked].map((jobId) => ({ jobId, dependencyId: 'a' }))
    const byId = (some: readonly Unblocked[]) => some.toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1))
    assert.deepEqual(
      byId(await backend.dependencies.meet(unmet)),
      byId([
        { jobId: now, queue: 'mail', to: 'ready' },
        { jobId: later, queue: 'q', to: 'scheduled' },
        { jobId: locked, queue: 'l', to: 'lock' },
      ]),
    )
    assert.deepEqual(await backend.dependencies.states([now, later, locked]), [
      'ready',
      'scheduled',
      'waiting',
    ])
    assert.equal((await find(backend, later)).runAt, runAt)
    assert.equal((await find(backend, now)).runAt, 1_000)
    assert.equal((await lockOf(backend, locked))?.askNo, 1)
    assert.deepEqual(await backend.dependencies.meet(unmet), [])
  })

  test('meeting an unknown dependency does nothing', async () => {
    await using backend = await open()
    const jobId = await addNeeding(backend, ['a'])
    const free = await addOne(backend)
    assert.deepEqual(
      await backend.dependencies.meet([
        { jobId, dependencyId: 'A' },
        { jobId: free, dependencyId: 'a' },
        { jobId: 'unknown', dependencyId: 'a' },
      ]),
      [],
    )
    assert.deepEqual(await backend.dependencies.meet([]), [])
    assert.deepEqual(await backend.dependencies.unmet({ limit: 10 }), [{ jobId, dependencyId: 'a' }])
  })

  test('of several resolvers that meet the dependencies of a job at once, one unblocks it', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    const jobs = Array.from({ length: 20 }, () => aJob({ dependsOn: dependenciesOf({ jobs: ['a', 'b'] }) }))
    await one.jobs.add(jobs)
    const of = (dependencyId: string) => ids(jobs).map((jobId) => ({ jobId, dependencyId }))
    const answers = await Promise.all([
      one.dependencies.meet(of('a')),
      two.dependencies.meet(of('b').reverse()),
      two.dependencies.meet(of('a').reverse()),
      one.dependencies.meet(of('b')),
      ...of('a').map((dependency) => two.dependencies.meet([dependency])),
    ])
    const letOn = answers.flat().map(({ jobId }) => jobId)
    assert.deepEqual(letOn.sort(), ids(jobs).sort())
    assert.equal((await claim(one, { limit: 100 })).length, 20)
  })

  test('unmet dependencies are listed by job and dependency, from any position, and filtered by dependency', async () => {
    await using backend = await open()
    const { dependencies } = backend
    await backend.jobs.add([
      aJob({ id: 'b', dependsOn: dependenciesOf({ jobs: ['2', '10', 'Z'] }) }),
      aJob({ id: 'B', dependsOn: dependenciesOf({ jobs: ['z', '2'] }) }),
      aJob({ id: 'a', dependsOn: dependenciesOf({ jobs: ['2'] }) }),
    ])
    const texts = async (query: Parameters<typeof dependencies.unmet>[0]) =>
      (await dependencies.unmet(query)).map(({ jobId, dependencyId }) => `${jobId}${dependencyId}`)
    assert.deepEqual(await texts({ limit: 10 }), ['B2', 'Bz', 'a2', 'b10', 'b2', 'bZ'])
    assert.deepEqual(await texts({ limit: 2 }), ['B2', 'Bz'])
    const after = { jobId: 'B', dependencyId: 'z' }
    assert.deepEqual(await texts({ limit: 2, after }), ['a2', 'b10'])
    assert.deepEqual(await texts({ limit: 9, after: { jobId: 'a', dependencyId: '9' } }), ['b10', 'b2', 'bZ'])
    assert.deepEqual(await texts({ limit: 9, of: ['2', 'Z', 'unknown'] }), ['B2', 'a2', 'b2', 'bZ'])
    assert.deepEqual(await texts({ limit: 2, of: ['2'] }), ['B2', 'a2'])
    assert.deepEqual(await texts({ limit: 2, of: [] }), [])
    const many = Array.from({ length: 1_000 }, (_, at) => `other ${at}`)
    assert.deepEqual(await texts({ limit: 9, of: [...many, 'Z'] }), ['bZ'])
  })

  test('a job whose dependency failed is cancelled, with the reason', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const jobId = await addNeeding(backend, ['a', 'b'], { uniqueKey: 'k' })
    const running = await runningJob(backend, { queue: 'other' })
    const error = '{"message":"job a was cancelled \\u00e9 😀"}'
    const ends = [jobId, running.id, 'unknown', jobId].map((id) => ({ jobId: id, error }))
    assert.deepEqual([...new Set(await dependencies.fail(ends))], [jobId])
    const job = await find(backend, jobId)
    assert.deepEqual([job.state, job.error, job.attempt], ['cancelled', error, 0])
    assert.ok(job.finishedAt !== null)
    assert.deepEqual(await dependencies.unmet({ limit: 10 }), [])
    assert.deepEqual(await dependencies.meet([{ jobId, dependencyId: 'a' }]), [])
    assert.deepEqual(await dependencies.fail(ends), [])
    assert.equal((await find(backend, running.id)).state, 'running')
    await addOne(backend, { uniqueKey: 'k' })
  })

  test('when one resolver fails a job while another unblocks it, one of them succeeds', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using two = isShared ? await lend(namespace) : one
    const jobs = Array.from({ length: 10 }, () => aJob({ dependsOn: dependenciesOf({ jobs: ['a'] }) }))
    await one.jobs.add(jobs)
    const [on, off] = await Promise.all([
      Promise.all(ids(jobs).map((jobId) => one.dependencies.meet([{ jobId, dependencyId: 'a' }]))),
      Promise.all(ids(jobs).map((jobId) => two.dependencies.fail([{ jobId, error: '{}' }]))),
    ])
    assert.deepEqual([...on.flat().map(({ jobId }) => jobId), ...off.flat()].sort(), ids(jobs).sort())
    assert.equal((await claim(one, { limit: 20 })).length, on.flat().length)
  })

  test('the present states of jobs are returned in the order of the request', async () => {
    await using backend = await open()
    const completed = await endedJob(backend, 'completed')
    const dead = await endedJob(backend, 'dead')
    const lapsed = await lapsedJob(backend, { maxAttempts: 1, queue: 'lapsed' })
    const running = await runningJob(backend)
    const later = await addOne(backend, { due: { delayMs: longMs } })
    const waiting = await addNeeding(backend, [later])
    const ready = await addOne(backend, { due: { runAt: 1 } })
    const asked = [completed, 'unknown', dead, lapsed.id, running.id, later, waiting, ready, completed]
    assert.deepEqual(await backend.dependencies.states(asked), [
      ...['completed', undefined, 'dead', 'dead', 'running', 'scheduled', 'waiting', 'ready', 'completed'],
    ])
    assert.deepEqual(await backend.dependencies.states([]), [])
  })

  test('the store lists the dependencies and the dependents of a job, met or not', async () => {
    await using backend = await open()
    const { dependencies } = backend
    const done = await endedJob(backend, 'completed')
    const [x, y] = await Promise.all([addOne(backend), addOne(backend)])
    const jobId = await addNeeding(backend, [done, x, 'gone'])
    const next = [await addNeeding(backend, [jobId, y]), await addNeeding(backend, [jobId])].sort()
    await dependencies.meet([{ jobId, dependencyId: done }])
    const states = new Map([[done, 'completed'] as const, [x, 'ready'] as const])
    assert.deepEqual(await dependencies.around(jobId, 10), {
      dependencies: [done, x, 'gone'].sort().map((id) => ({ id, state: states.get(id), isMet: id === done })),
      dependents: next.map((id) => ({ id, state: 'waiting', isMet: false })),
    })
    const some = await dependencies.around(jobId, 1)
    assert.deepEqual([some.dependencies.length, some.dependents.length], [1, 1])
    assert.deepEqual(await dependencies.around('unknown', 10), { dependencies: [], dependents: [] })
  })

  test('an operator’s retry unblocks a job despite its dependencies, and a cancel ends it', async () => {
    await using backend = await open()
    const { jobs, dependencies } = backend
    const free = await addNeeding(backend, ['a'], { due: { delayMs: longMs } })
    const ended = await addNeeding(backend, ['a'], { uniqueKey: 'k' })
    assert.deepEqual(await jobs.retry(free), { outcome: 'ready' })
    assert.deepEqual(await jobs.cancel(ended), { state: 'cancelled', cancelRequested: false })
    assert.deepEqual(ids(await claim(backend)), [free])
    assert.equal((await find(backend, ended)).state, 'cancelled')
    // The next `meet` clears their dependencies and changes nothing else.
    const unmet = await dependencies.unmet({ limit: 10 })
    assert.deepEqual(unmet.map(({ jobId }) => jobId).sort(), [free, ended].sort())
    assert.deepEqual(await dependencies.meet(unmet), [])
    assert.deepEqual(await dependencies.unmet({ limit: 10 }), [])
    assert.deepEqual(await dependencies.states([free, ended]), ['running', 'cancelled'])
    await addOne(backend, { uniqueKey: 'k' })
  })

  test('an unblocked job fails, retries and completes like any other', async () => {
    await using backend = await open()
    const jobId = await addNeeding(backend, ['a'], { maxAttempts: 2 })
    await backend.dependencies.meet([{ jobId, dependencyId: 'a' }])
    const [first] = await claim(backend)
    await settleOne(backend, first!, { state: 'scheduled', delayMs: 0, error: '{}' })
    const [second] = await claim(backend)
    assert.deepEqual([second!.id, second!.attempt], [jobId, 2])
    assert.equal(await settleOne(backend, second!), true)
    assert.equal((await find(backend, jobId)).state, 'completed')
  })
}
