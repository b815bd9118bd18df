import assert from 'node:assert/strict'
import { test } from 'vitest'
import { withMovedClock } from '../../../../test/support/moved-clock.ts'
import { start } from '../jobs/cursor.ts'
import { KeylessPositions } from './keyless-positions.ts'

const place = (id: string) => ({ rank: '0', runAt: '1000', id })

test('claims go on behind what was passed, and look from the start again in time, however often they went on', () => {
  withMovedClock((advance) => {
    const places = new KeylessPositions()
    assert.equal(places.from('mail', null), start)
    places.passed('mail', null, { place: place('a'), tookMs: 5, isEnd: true })
    assert.deepEqual(places.from('mail', null), place('a'))
    assert.equal(places.from('mail', ['welcome']), start)
    assert.equal(places.from('other', null), start)
    advance(900)
    places.passed('mail', null, { place: place('b'), tookMs: 5, isEnd: true })
    assert.deepEqual(places.from('mail', null), place('b'))
    advance(200)
    assert.equal(places.from('mail', null), start)
  })
})

test('a look that was long is not made again soon, and one that is not at its end goes on until it is', () => {
  withMovedClock((advance) => {
    const places = new KeylessPositions()
    places.passed('mail', null, { place: place('a'), tookMs: 100, isEnd: false })
    advance(10_000)
    assert.deepEqual(places.from('mail', null), place('a'))
    places.passed('mail', null, { place: place('b'), tookMs: 500, isEnd: true })
    advance(9_000)
    assert.deepEqual(places.from('mail', null), place('b'))
    advance(2_000)
    assert.equal(places.from('mail', null), start)
  })
})
