import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../../jobs/index.ts'
import { Cursor, start } from './cursor.ts'

const taken = (count: number, last: { priority?: number; runAt?: number; id?: string } = {}) =>
  Array.from({ length: count }, () => ({ priority: 0, runAt: 1_000, id: 'j', ...last }) as ClaimedRecord)

/** It took less than it asked for. */
const short = (tookMs: number, now: number) => ({ tookMs, now, isFull: false })
const full = (tookMs: number, now: number) => ({ tookMs, now, isFull: true })

test('a claim that was quick leaves the next one to look from the start', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(500), short(12, 0))
  assert.equal(cursor.from(1), start)
})

test('after a slow claim the next ones go on where it ended, for a second', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(100, { priority: 7, runAt: 5, id: 'z' }), short(200, 0))
  const from = cursor.from(1)
  assert.deepEqual(from, { rank: '-7', runAt: '5', id: 'z' })
  cursor.took(from, taken(100, { runAt: 9 }), short(5, 500))
  assert.equal(cursor.from(999).runAt, '9')
  assert.equal(cursor.from(1_000), start)
})

test('when going on is no quicker, the cursor stays off for a while', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(100), short(200, 0))
  for (const now of [100, 200]) cursor.took(cursor.from(now), taken(100), short(190, now))
  assert.notEqual(cursor.from(201), start)
  cursor.took(cursor.from(300), taken(100), short(190, 300))
  assert.equal(cursor.from(301), start)
  cursor.took(start, taken(100), short(200, 400))
  assert.equal(cursor.from(401), start)
  cursor.took(start, taken(100), short(200, 6_000))
  assert.notEqual(cursor.from(6_001), start)
})

test('a job that goes in line before the position brings the next claim back to the start', () => {
  const slow = () => {
    const cursor = new Cursor()
    cursor.took(start, taken(100, { priority: 5, runAt: 1_000, id: 'm' }), short(200, 0))
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
  cursor.took(start, taken(100, { priority: 5, runAt: 1_000, id: 'm' }), short(200, 0))
  const onItsWay = cursor.from(1)
  cursor.wentBack({ priority: 4, runAt: 1 })
  cursor.wentBack({ priority: 5, runAt: 1_001 })
  assert.equal(cursor.from(1), onItsWay, 'what belongs behind it is found anyway')
  cursor.wentBack({ priority: 5, runAt: 900 })
  const back = { rank: '-5', runAt: '900', id: '' }
  assert.deepEqual(cursor.from(2), back)
  cursor.took(onItsWay, taken(10, { priority: 5, runAt: 2_000 }), short(1, 3))
  assert.deepEqual(cursor.from(4), back)
  cursor.took(cursor.from(5), taken(10, { priority: 5, runAt: 950, id: 'n' }), short(1, 6))
  assert.deepEqual(cursor.from(7), { rank: '-5', runAt: '950', id: 'n' })
})

test('behind a large claim that was filled, the next ones go on where it ended, for a tenth of a second', () => {
  const cursor = new Cursor()
  cursor.took(start, taken(99), full(2, 0))
  assert.equal(cursor.from(1), start, 'a small one may be anybody')
  cursor.took(start, taken(100, { priority: 7, runAt: 5, id: 'z' }), full(2, 0))
  assert.deepEqual(cursor.from(1), { rank: '-7', runAt: '5', id: 'z', isBrief: true })
  // No quicker, and that says nothing here.
  for (const now of [10, 20, 30, 40]) cursor.took(cursor.from(now), taken(100, { runAt: now }), full(2, now))
  assert.equal(cursor.from(99).runAt, '40')
  assert.equal(cursor.from(100), start)
})
