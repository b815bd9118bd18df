import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, aJob, claim, find, ids, longMs, runningJob } from '../jobs/making.ts'
import { aRun, aSchedule, findSchedule, made, readClock } from './making.ts'

/** A run moves its schedule on and adds its jobs: both or neither, and once. */
export function firingContract({ open, lend, isShared, name: engine }: Candidate): void {
  test('a run advances the schedule and adds its jobs, which behave like all others', async () => {
    await using backend = await open()
    const version = await made(backend, 'hourly', { nextAt: 1_000 })
    const before = await findSchedule(backend, 'hourly')
    const start = await readClock(backend)
    const jobs = [aJob({ meta: '{"tags":["hourly"]}', priority: 1 }), aJob({ due: { delayMs: longMs } })]
    const fired = await backend.schedules.fire(
      aRun('hourly', version, { nextAt: 5_000, slotAt: 4_000, jobs }),
    )
    assert.deepEqual(
      fired?.added,
      jobs.map(({ id }) => ({ id, duplicate: false })),
    )
    assert.ok(fired.version > version)
    const after = await findSchedule(backend, 'hourly')
    const lastFiredAt = after.lastFiredAt!
    const moved = { nextAt: 5_000, lastSlotAt: 4_000, lastFiredAt, version: fired.version }
    assert.deepEqual(after, { ...before, ...moved })
    assert.ok(lastFiredAt >= start && lastFiredAt <= (await readClock(backend)))
    const [claimed, ...more] = await claim(backend)
    assert.deepEqual([claimed?.id, claimed?.meta, more], [jobs[0]!.id, jobs[0]!.meta, []])
    assert.equal((await find(backend, jobs[1]!.id)).state, 'scheduled')
  })

  test('a late run writes nothing', async () => {
    await using backend = await open()
    const first = await made(backend, 'a')
    const fired = await backend.schedules.fire(aRun('a', first))
    const before = await findSchedule(backend, 'a')
    assert.equal(await backend.schedules.fire(aRun('a', first, { nextAt: 9_000 })), null)
    assert.equal(await backend.schedules.fire(aRun('a', fired!.version + 1, { force: true })), null)
    assert.equal(await backend.schedules.fire(aRun('unknown', 0)), null)
    assert.deepEqual(await findSchedule(backend, 'a'), before)
    assert.equal((await backend.jobs.list({ limit: 10 })).length, 1)
  })

  test('a paused schedule runs only when an operator forces it, and stays paused', async () => {
    await using backend = await open()
    const version = await made(backend, 'a', { isPaused: true })
    assert.equal(await backend.schedules.fire(aRun('a', version)), null)
    assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
    const fired = await backend.schedules.fire(aRun('a', version, { force: true }))
    assert.equal(fired?.added.length, 1)
    const { isPaused, version: seen } = await findSchedule(backend, 'a')
    assert.deepEqual([isPaused, seen], [true, fired.version])
    assert.equal((await backend.jobs.list({ limit: 10 })).length, 1)
  })

  test('a forced run does not change the last slot that ran', async () => {
    await using backend = await open()
    const version = await made(backend, 'a')
    const first = await backend.schedules.fire(aRun('a', version, { slotAt: null }))
    assert.equal((await findSchedule(backend, 'a')).lastSlotAt, null)
    const second = await backend.schedules.fire(aRun('a', first!.version, { slotAt: 3_000 }))
    const third = await backend.schedules.fire(aRun('a', second!.version, { slotAt: null, nextAt: null }))
    const { lastSlotAt, nextAt, version: last } = await findSchedule(backend, 'a')
    assert.deepEqual([lastSlotAt, nextAt, last], [3_000, null, third!.version])
  })

  test('a run without jobs, for skipped slots, advances the schedule', async () => {
    await using backend = await open()
    const fired = await backend.schedules.fire(aRun('a', await made(backend, 'a'), { jobs: [] }))
    assert.deepEqual(fired?.added, [])
    assert.equal((await findSchedule(backend, 'a')).nextAt, 2_000)
  })

  test('a taken unique key does not stop a schedule from advancing', async () => {
    await using backend = await open()
    const { id: holder } = await runningJob(backend, { uniqueKey: 'nightly' })
    const jobs = [aJob({ uniqueKey: 'nightly' }), aJob({ uniqueKey: 'free' }), aJob({ uniqueKey: 'free' })]
    const fired = await backend.schedules.fire(aRun('a', await made(backend, 'a'), { jobs }))
    assert.deepEqual(fired?.added, [
      { id: holder, duplicate: true },
      { id: jobs[1]!.id, duplicate: false },
      { id: jobs[1]!.id, duplicate: true },
    ])
    assert.equal((await findSchedule(backend, 'a')).nextAt, 2_000)
  })

  // Memory accepts any value.
  test.skipIf(engine === 'memory')(
    'a run whose job cannot be added neither advances the schedule nor adds any job',
    async () => {
      await using backend = await open()
      const version = await made(backend, 'a')
      const before = await findSchedule(backend, 'a')
      const jobs = [aJob(), aJob({ id: null as unknown as string })]
      await assert.rejects(backend.schedules.fire(aRun('a', version, { jobs })))
      assert.deepEqual(await findSchedule(backend, 'a'), before)
      assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
      assert.equal((await backend.schedules.fire(aRun('a', version)))?.added.length, 1)
    },
  )

  test('of eight processes that fire one slot at once, one succeeds and adds the jobs', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using other = isShared ? await lend(namespace) : one
    let seen = await made(one, 'a')
    const added: string[] = []
    for (let round = 0; round < 3; round++) {
      const jobs = Array.from({ length: 8 }, () => [aJob(), aJob()])
      const runs = await Promise.all(
        jobs.map((own, i) => (i % 2 === 0 ? one : other).schedules.fire(aRun('a', seen, { jobs: own }))),
      )
      const took = runs.flatMap((run, i) => (run === null ? [] : [{ run, own: jobs[i]! }]))
      assert.equal(took.length, 1)
      const [{ run, own }] = took as [(typeof took)[number]]
      assert.deepEqual(ids(run.added), ids(own))
      added.push(...ids(own))
      seen = run.version
    }
    assert.deepEqual(ids(await other.jobs.list({ limit: 100 })).sort(), added.toSorted())
    assert.equal((await findSchedule(other, 'a')).version, seen)
  })

  test('when a run and a write or removal of the schedule collide, one of them comes first', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using other = isShared ? await lend(namespace) : one
    for (let round = 0; round < 5; round++) {
      const name = `race ${round}`
      const queue = `race ${round}`
      const seen = await made(one, name)
      const [fired, put, paused] = await Promise.all([
        one.schedules.fire(aRun(name, seen, { jobs: [aJob({ queue })] })),
        other.schedules.put(aSchedule(name, { doc: '{"put":true}' }), seen),
        one.schedules.put(aSchedule(name, { isPaused: true }), seen),
      ])
      assert.equal([fired, put, paused].filter((answer) => answer !== null).length, 1)
      assert.equal((await one.jobs.list({ queue, limit: 10 })).length, fired === null ? 0 : 1)
    }
  })

  test('firing does not change existing jobs', async () => {
    await using backend = await open()
    const id = await addOne(backend, { due: { delayMs: longMs } })
    const before = await find(backend, id)
    await backend.schedules.fire(aRun('a', await made(backend, 'a')))
    assert.deepEqual(await find(backend, id), before)
  })
}
