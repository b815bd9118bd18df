import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { longMs, until } from '../jobs/making.ts'
import { aSchedule, made, names, readClock } from './making.ts'

/** The store's clock decides which schedules are due. */
export function dueContract({ open }: Candidate): void {
  test('due schedules are listed longest due first, then by name', async () => {
    await using backend = await open()
    const now = await readClock(backend)
    await made(backend, 'b', { nextAt: now - 1_000 })
    await made(backend, 'a', { nextAt: now - 1_000 })
    await made(backend, 'c', { nextAt: 5 })
    await made(backend, 'later', { nextAt: now + longMs })
    await made(backend, 'never', { nextAt: null })
    await made(backend, 'paused', { nextAt: 1, isPaused: true })
    const due = await backend.schedules.due(10)
    assert.deepEqual(names(due.schedules), ['c', 'a', 'b'])
    assert.deepEqual(due.schedules[0], await backend.schedules.find('c'))
    assert.deepEqual(names((await backend.schedules.due(2)).schedules), ['c', 'a'])
    assert.ok(due.now >= now && Math.abs(due.now - Date.now()) < 60_000)
  })

  test('a schedule becomes due by the store’s clock', async () => {
    await using backend = await open()
    const nextAt = (await readClock(backend)) + 100
    await made(backend, 'soon', { nextAt })
    await until('it is due', async () => {
      const { schedules, now } = await backend.schedules.due(10)
      assert.equal(schedules.length > 0, now >= nextAt)
      return schedules.length > 0
    })
  })

  test('the store returns the next due time, without paused schedules', async () => {
    await using backend = await open()
    const { schedules } = backend
    const next = async () => (await schedules.nextDue()).nextAt
    assert.equal(await next(), null)
    await made(backend, 'never', { nextAt: null })
    const paused = await made(backend, 'paused', { nextAt: 1, isPaused: true })
    assert.equal(await next(), null)
    const far = 4_102_444_800_000
    const late = await made(backend, 'late', { nextAt: far })
    assert.equal(await next(), far)
    await schedules.put(aSchedule('paused', { nextAt: 1 }), paused)
    assert.equal(await next(), 1)
    await schedules.remove('paused')
    await schedules.put(aSchedule('late', { nextAt: far, isPaused: true }), late)
    assert.equal(await next(), null)
    assert.deepEqual((await schedules.due(10)).schedules, [])
  })
}
