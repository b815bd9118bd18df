import assert from 'node:assert/strict'
import { test } from 'vitest'
import { withMovedClock } from '../../../../test/support/moved-clock.ts'
import { LimitFronts } from './limit-fronts.ts'

test('a line whose front was not enough is looked at by key for a second, and no other line is', () => {
  withMovedClock((advance) => {
    const fronts = new LimitFronts()
    assert.equal(fronts.mayTry('mail'), true)
    fronts.fellShort('mail')
    // However many keys there are: the front is no way to look.
    fronts.saw('mail', 1_000)
    assert.equal(fronts.mayTry('mail'), false)
    assert.equal(fronts.mayTry('other'), true)
    advance(999)
    assert.equal(fronts.mayTry('mail'), false)
    advance(1)
    assert.equal(fronts.mayTry('mail'), true)
  })
})

test('a front that is enough only past many who wait is left for the keys if they are few', () => {
  withMovedClock((advance) => {
    const fronts = new LimitFronts()
    fronts.passed('mail', 10)
    assert.equal(fronts.mayTry('mail'), true)
    fronts.passed('mail', 4_000)
    assert.equal(fronts.mayTry('mail'), false)
    fronts.saw('mail', 3)
    assert.equal(fronts.mayTry('mail'), false)
    advance(1_000)
    assert.equal(fronts.mayTry('mail'), true)
  })
})

test('where there are many keys, a front that is enough is kept to, until they are counted again', () => {
  withMovedClock((advance) => {
    const fronts = new LimitFronts()
    fronts.passed('mail', 4_000)
    fronts.saw('mail', 1_000)
    assert.equal(fronts.mayTry('mail'), true)
    fronts.passed('mail', 4_000)
    assert.equal(fronts.mayTry('mail'), true)
    advance(10_000)
    fronts.passed('mail', 4_000)
    assert.equal(fronts.mayTry('mail'), false)
  })
})
