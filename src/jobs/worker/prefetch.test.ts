import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createPrefetch, type Prefetch } from './fetcher.ts'

function aPrefetch({ concurrency = 10, prefetch = 500 } = {}): {
  prefetch: Prefetch
  pass(ms: number): void
} {
  let at = 1_000
  return {
    prefetch: createPrefetch({ concurrency, prefetch }, () => at),
    pass: (ms) => {
      at += ms
    },
  }
}

function end(prefetch: Prefetch, count: number): void {
  for (let nth = 0; nth < count; nth++) prefetch.handlerEnded()
}

test('a worker without a measured pace claims only for its slots', () => {
  const { prefetch, pass } = aPrefetch()
  assert.equal(prefetch.capacity(0, 0), 10)
  pass(5)
  assert.equal(prefetch.capacity(10, 0), 0)
  assert.equal(prefetch.capacity(7, 0), 3)
  assert.equal(prefetch.capacity(7, 3), 0)
})

test('long jobs are never claimed beyond the slots, also when all slots were filled at once', () => {
  const { prefetch, pass } = aPrefetch()
  for (let second = 0; second < 60; second++) {
    pass(1_000)
    assert.equal(prefetch.capacity(10, 0), 0)
  }
  // One of them ends each minute: one may wait for the next slot, no more.
  prefetch.handlerEnded()
  assert.ok(prefetch.capacity(9, 0) <= 2)
})

test('quick jobs are claimed a tenth of a second ahead, up to the limit', () => {
  const { prefetch, pass } = aPrefetch()
  pass(10)
  end(prefetch, 20)
  assert.equal(prefetch.capacity(10, 0), 200)
  pass(2)
  end(prefetch, 1_000)
  assert.equal(prefetch.capacity(10, 0), 500)
  assert.equal(prefetch.capacity(10, 251), 0)
  assert.equal(prefetch.capacity(10, 250), 250)
})

test('the pace is forgotten a moment after it ended', () => {
  const { prefetch, pass } = aPrefetch()
  pass(10)
  end(prefetch, 1_000)
  assert.equal(prefetch.capacity(10, 0), 500)
  pass(100)
  assert.ok(prefetch.capacity(10, 0) <= 1)
  pass(10_000)
  assert.ok(prefetch.capacity(10, 0) <= 1)
})

test('with a prefetch of 0 nothing is claimed beyond the slots, however quick', () => {
  const { prefetch, pass } = aPrefetch({ concurrency: 1, prefetch: 0 })
  pass(10)
  end(prefetch, 1_000)
  assert.equal(prefetch.capacity(0, 0), 1)
  assert.equal(prefetch.capacity(1, 0), 0)
})
