import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../jobs/index.ts'
import { Cursor, start } from './cursor.ts'

const taken = (count: number, last: { priority?: number; runAt?: number; id?: string } = {}) =>
  Array.from({ length: count }, () => ({ priority: 0, runAt: 1_000, id: 'j', ...last }) as ClaimedRecord)

test('a claim that was quick leaves the next one to look from the start', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(500), 12, 0)
  assert.equal(cursor.from(1), start)
})

test('after a slow claim the next ones go on where it ended, for a second', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(100, { priority: 7, runAt: 5, id: 'z' }), 200, 0)
  const from = cursor.from(1)
  assert.deepEqual(from, { rank: '-7', runAt: '5', id: 'z' })
  cursor.took(from, taken(100, { runAt: 9 }), 5, 500)
  assert.equal(cursor.from(999).runAt, '9')
  assert.equal(cursor.from(1_000), start)
})

test('when going on is no quicker, the cursor stays off for a while', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(100), 200, 0)
  for (const now of [100, 200]) cursor.took(cursor.from(now), taken(100), 190, now)
  assert.notEqual(cursor.from(201), start)
  cursor.took(cursor.from(300), taken(100), 190, 300)
  assert.equal(cursor.from(301), start)
  cursor.took(start, taken(100), 200, 400)
  assert.equal(cursor.from(401), start)
  cursor.took(start, taken(100), 200, 6_000)
  assert.notEqual(cursor.from(6_001), start)
})

test('a job that goes in line before the position brings the next claim back to the start', () => {
  const slow = () => {
    const cursor = new Cursor()
    cursor.took(start, taken(100, { priority: 5, runAt: 1_000, id: 'm' }), 200, 0)
    return cursor
  }
  const moves = (job: Parameters<Cursor['added']>[0]) => {
    const cursor = slow()
    cursor.added(job)
    return cursor.from(1) === start
  }
  assert.equal(moves({ id: 'z', priority: 6, due: { delayMs: 0 } }), true)
  assert.equal(moves({ id: 'z', priority: 5, due: { delayMs: 0 } }), false)
  assert.equal(moves({ id: 'z', priority: 4, due: { runAt: 1 } }), false)
  assert.equal(moves({ id: 'z', priority: 5, due: { runAt: 999 } }), true)
  assert.equal(moves({ id: 'a', priority: 5, due: { runAt: 1_000 } }), true)
  assert.equal(moves({ id: 'z', priority: 5, due: { runAt: 1_000 } }), false)
})

test('a job that comes back to its place is where the next claim begins, even one that was on its way', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(100, { priority: 5, runAt: 1_000, id: 'm' }), 200, 0)
  const onItsWay = cursor.from(1)
  cursor.wentBack({ priority: 4, runAt: 1 })
  cursor.wentBack({ priority: 5, runAt: 1_001 })
  assert.equal(cursor.from(1), onItsWay, 'what belongs behind it is found anyway')
  cursor.wentBack({ priority: 5, runAt: 900 })
  const back = { rank: '-5', runAt: '900', id: '' }
  assert.deepEqual(cursor.from(2), back)
  cursor.took(onItsWay, taken(10, { priority: 5, runAt: 2_000 }), 1, 3)
  assert.deepEqual(cursor.from(4), back)
  cursor.took(cursor.from(5), taken(10, { priority: 5, runAt: 950, id: 'n' }), 1, 6)
  assert.deepEqual(cursor.from(7), { rank: '-5', runAt: '950', id: 'n' })
})
