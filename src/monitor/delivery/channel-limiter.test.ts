import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Rate } from '../channels/channel.ts'
import { Limiter } from './channel-limiter.ts'

const minute = 60_000
const twenty: Rate = { messages: 20, perMs: minute }
const robots = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ url: `https://robots.example/${index}`, secret: null }))

function aLimiter(
  options: {
    rate?: Rate | null
    burst?: Rate | null
    state?: string | null
    now?: number
    robots?: number
  } = {},
): Limiter {
  const { rate = twenty, burst = null, state = null, now = 0 } = options
  return new Limiter({ limits: { rate, burst }, robots: robots(options.robots ?? 1), state, now })
}

test('a robot gets twenty messages, then none until the first is a minute old', () => {
  const limiter = aLimiter()
  for (let at = 0; at < 20; at++) limiter.arrived(limiter.begin(limiter.choose(at)!, at + 5_000), at)
  assert.equal(limiter.free(19), 0)
  assert.equal(limiter.choose(19), undefined)
  assert.equal(limiter.nextAt(19), minute + 1)
  assert.equal(limiter.free(minute), 0)
  assert.equal(limiter.free(minute + 1), 1)
  assert.equal(limiter.nextAt(19, 3), minute + 3)
})

test('a started request counts at its latest possible arrival, until its reply comes', () => {
  const limiter = aLimiter({ rate: { messages: 1, perMs: 1_000 } })
  const slot = limiter.begin(0, 5_000)
  assert.equal(limiter.nextAt(0), 6_001)
  limiter.arrived(slot, 200)
  assert.equal(limiter.nextAt(0), 1_201)
  limiter.takeBack(0, slot)
  assert.equal(limiter.free(0), 1)
})

test('a second, shorter window applies in addition to the first', () => {
  const limiter = aLimiter({ rate: { messages: 100, perMs: minute }, burst: { messages: 5, perMs: 1_000 } })
  for (let count = 0; count < 5; count++) limiter.arrived(limiter.begin(0, 5_000), 0)
  assert.equal(limiter.free(1_000), 0)
  assert.equal(limiter.free(1_001), 5)
  assert.equal(limiter.nextAt(10), 1_001)
  assert.equal(limiter.capacity, 5)
})

test('the robot of a pool with the most free requests is chosen; a resting one is not', () => {
  const limiter = aLimiter({ robots: 3 })
  const chosen = Array.from({ length: 6 }, () => {
    const robot = limiter.choose(0)!
    limiter.begin(robot, 0)
    return robot
  })
  assert.deepEqual(chosen, [0, 1, 2, 0, 1, 2])
  assert.equal(limiter.free(0), 54)
  limiter.rest(0, 600_000)
  limiter.rest(1, 500_000)
  assert.equal(limiter.choose(0), 2)
  limiter.rest(2, 700_000)
  assert.equal(limiter.choose(0), undefined)
  assert.equal(limiter.nextAt(0), 500_000)
})

test('a channel without limits allows any number of requests, and its robots take turns', () => {
  const limiter = aLimiter({ rate: null, robots: 2 })
  assert.equal(limiter.free(0), Number.POSITIVE_INFINITY)
  const chosen = Array.from({ length: 4 }, () => {
    const robot = limiter.choose(0)!
    limiter.begin(robot, 0)
    return robot
  })
  assert.deepEqual(chosen, [0, 1, 0, 1])
  assert.equal(limiter.encode(0), null, 'nothing needs to be kept')
})

test('the next sender continues from the stored state, which contains no address', () => {
  const first = aLimiter({ robots: 2 })
  for (let count = 0; count < 25; count++) first.begin(first.choose(1_000)!, 2_000)
  first.rest(1, 300_000)
  const state = first.encode(1_000)
  assert.ok(state !== null && !state.includes('robots.example'))
  const next = aLimiter({ robots: 2, state, now: 3_000 })
  assert.equal(next.free(3_000), 7, 'thirteen went through the first, and the second rests')
  assert.equal(aLimiter({ robots: 2, state, now: 3_000 }).encode(900_000), null, 'what is over is forgotten')
})

test('a clock that was set back closes nothing for long, and neither do invalid values', () => {
  const ahead = aLimiter({ now: 10 ** 12 })
  for (let count = 0; count < 20; count++) ahead.begin(0, 10 ** 12)
  const after = aLimiter({ state: ahead.encode(10 ** 12), now: 5_000 })
  assert.ok(after.nextAt(5_000) <= 5_000 + 2 * minute + minute + 1)
  for (const state of ['nonsense', '{}', '[]', 'null', '{"robots":{"a":1}}']) {
    assert.equal(aLimiter({ state }).free(0), 20)
  }
})

test('over random turns, hand-overs and crashes no window ever exceeds its number', () => {
  let seed = 7
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return seed / 2 ** 31
  }
  const rate = { messages: 5, perMs: 1_000 }
  const arrivals: number[] = []
  let now = 0
  let state: string | null = null
  for (let turn = 0; turn < 3_000; turn++) {
    now += Math.floor(random() * 150)
    const limiter = aLimiter({ rate, state, now })
    const begun = []
    while (limiter.choose(now) !== undefined && random() < 0.9) begun.push(limiter.begin(0, now + 300))
    state = limiter.encode(now)
    const startedAt = now
    for (const slot of begun) {
      const arrivedAt = startedAt + Math.floor(random() * 250)
      arrivals.push(arrivedAt)
      const repliedAt = arrivedAt + Math.floor(random() * (300 - (arrivedAt - startedAt)))
      now = Math.max(now, repliedAt)
      limiter.arrived(slot, repliedAt)
    }
    // Now and then the sender dies before it has written when they arrived.
    if (random() < 0.8) state = limiter.encode(now)
  }
  arrivals.sort((a, b) => a - b)
  assert.ok(arrivals.length > 500)
  for (let index = 5; index < arrivals.length; index++) {
    assert.ok(arrivals[index]! - arrivals[index - 5]! > 1_000 - 1, `at ${index}`)
  }
})
