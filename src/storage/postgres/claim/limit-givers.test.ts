import assert from 'node:assert/strict'
import { test } from 'vitest'
import { withMovedClock } from '../../../../test/support/moved-clock.ts'
import { LimitGivers } from './limit-givers.ts'

test('claims that are refused one after the other go straight less and less often, until one is not', () => {
  withMovedClock((advance) => {
    const givers = new LimitGivers()
    const limits = { text: '{}', concurrency: 1, perKey: null }
    let tries = 0
    const claim = (isRefused: boolean) => {
      if (givers.straight('mail') !== undefined) {
        tries++
        if (isRefused) givers.refused('mail')
        else givers.accepted('mail')
      }
      givers.gave('mail', limits)
      advance(1)
    }
    for (let claims = 0; claims < 3_000; claims++) claim(true)
    assert.equal(tries, 10)
    advance(1_000)
    for (let claims = 0; claims < 100; claims++) claim(false)
    assert.equal(tries, 110)
    claim(true)
    claim(true)
    claim(false)
    assert.equal(tries, 113, 'one or two now and then change nothing')
  })
})
