import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { aRun, aSchedule, findSchedule, made, names, nextMoment, readClock } from './making.ts'

/** A caller overwrites a schedule only if it has seen its latest version. */
export function writingContract({ open, lend, isShared }: Candidate): void {
  test('a schedule is found as it was written, with a version and its creation time', async () => {
    await using backend = await open()
    const before = await readClock(backend)
    const doc = '{ "cron": "0 9 * * *", "zone": "Europe/Berlin", "n": 1.0, "text": "\\u0061 🚂" }'
    const nextAt = 8_640_000_000_000_000
    const version = await made(backend, 'daily', { doc, nextAt })
    const found = await findSchedule(backend, 'daily')
    const { createdAt, ...rest } = found
    const never = { lastSlotAt: null, lastFiredAt: null }
    assert.deepEqual(rest, { name: 'daily', doc, isPaused: false, nextAt, version, ...never })
    assert.ok(createdAt >= before && createdAt <= (await readClock(backend)))
    assert.ok(Math.abs(createdAt - Date.now()) < 60_000)
    assert.deepEqual(await backend.schedules.list({ limit: 10 }), [found])
    assert.equal(await backend.schedules.find('unknown'), undefined)
  })

  test('a schedule is overwritten only by a caller that has seen its latest version', async () => {
    await using backend = await open()
    const { schedules } = backend
    assert.equal(await schedules.put(aSchedule('a'), 7), null)
    const first = await made(backend, 'a')
    const { createdAt } = await findSchedule(backend, 'a')
    assert.equal(await schedules.put(aSchedule('a', { doc: '{"late":true}' }), 0), null)
    await nextMoment(backend)
    const second = await schedules.put(aSchedule('a', { isPaused: true, nextAt: null, doc: '[]' }), first)
    assert.ok(second !== null && second > first)
    assert.equal(await schedules.put(aSchedule('a', { doc: '{"late":true}' }), first), null)
    const { isPaused, nextAt, doc, version, createdAt: still } = await findSchedule(backend, 'a')
    assert.deepEqual([isPaused, nextAt, doc, version, still], [true, null, '[]', second, createdAt])
  })

  test('overwriting a schedule keeps its last run', async () => {
    await using backend = await open()
    const fired = await backend.schedules.fire(aRun('a', await made(backend, 'a'), { slotAt: 500 }))
    const before = await findSchedule(backend, 'a')
    const doc = '{"new":true}'
    const version = await backend.schedules.put(aSchedule('a', { doc, nextAt: 9_000 }), fired!.version)
    assert.deepEqual(await findSchedule(backend, 'a'), { ...before, doc, nextAt: 9_000, version })
    assert.equal(before.lastSlotAt, 500)
  })

  test('a removed schedule is gone, and a new one of its name gets a new version', async () => {
    await using backend = await open()
    const { schedules } = backend
    const first = await made(backend, 'a')
    const second = await schedules.put(aSchedule('a'), first)
    await made(backend, 'A')
    assert.equal(await schedules.remove('a'), true)
    assert.equal(await schedules.remove('a'), false)
    assert.equal(await schedules.find('a'), undefined)
    assert.equal(await schedules.put(aSchedule('a'), second!), null)
    assert.equal(await schedules.fire(aRun('a', second!)), null)
    await nextMoment(backend)
    const third = await made(backend, 'a')
    assert.ok(third > second!)
    assert.equal(await schedules.fire(aRun('a', first)), null)
    assert.equal(await schedules.fire(aRun('a', second!)), null)
    assert.deepEqual(names(await schedules.list({ limit: 10 })), ['A', 'a'])
  })

  test('schedule names are compared and listed byte by byte, page by page', async () => {
    await using backend = await open()
    const given = ['a', 'A', 'ä', 'a\u0308', 'a ', ' a', 'b', "it's %_\\", '\uffee', '🚂', '🚂'.repeat(191)]
    for (const name of given) await made(backend, name, { doc: JSON.stringify(name) })
    const ordered = given.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    assert.deepEqual(names(await backend.schedules.list({ limit: 100 })), ordered)
    for (const name of given) assert.equal((await findSchedule(backend, name)).doc, JSON.stringify(name))
    const read: string[] = []
    for (;;) {
      const last = read.at(-1)
      const more = last === undefined ? {} : { after: last }
      const page = names(await backend.schedules.list({ limit: 3, ...more }))
      read.push(...page)
      if (page.length < 3) break
    }
    assert.deepEqual(read, ordered)
  })

  test('each namespace has its own schedules', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace())
    await made(backend, 'a', { doc: '1' })
    await made(other, 'a', { doc: '2' })
    assert.equal(await other.schedules.remove('a'), true)
    assert.equal((await findSchedule(backend, 'a')).doc, '1')
    assert.deepEqual((await other.schedules.due(10)).schedules, [])
  })

  test('a large schedule document is stored whole', async () => {
    await using backend = await open()
    const doc = JSON.stringify({ payload: 'ä🚂 '.repeat(60_000) })
    await made(backend, 'a', { doc })
    assert.equal((await findSchedule(backend, 'a')).doc, doc)
  })

  test('of many concurrent writes over the same version, one succeeds', async () => {
    const namespace = aNamespace()
    await using one = await lend(namespace)
    await using other = isShared ? await lend(namespace) : one
    const race = (seen: number) =>
      Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          (i % 2 === 0 ? one : other).schedules.put(aSchedule('a', { doc: `${i}` }), seen),
        ),
      )
    let seen = 0
    for (let round = 0; round < 3; round++) {
      const versions = await race(seen)
      const won = versions.findIndex((version) => version !== null)
      assert.equal(versions.filter((version) => version !== null).length, 1)
      const { doc, version } = await findSchedule(other, 'a')
      assert.deepEqual([doc, version], [`${won}`, versions[won]])
      seen = version
    }
  })
}
