import assert from 'node:assert/strict'
import { afterEach, test, vi } from 'vitest'
import { Positions, type QueuePosition } from './claim-positions.ts'

const now = 1_000_000
const position = (at: number, id = 'm', rank = 0): QueuePosition => ({ rank, at, id })

function search(positions: Positions, found: { tookMs: number; position?: QueuePosition }): void {
  using one = positions.begin('key')
  one.record({ now, position: position(500_000), ...found })
}

function slow(tookMs = 100): Positions {
  const positions = new Positions()
  for (let i = 0; i < 3; i++) search(positions, { tookMs })
  return positions
}

function from(positions: Positions): QueuePosition | undefined {
  using one = positions.begin('key')
  return one.from
}

afterEach(() => void vi.useRealTimers())

test('a search starts at the front unless three searches before it were slow', () => {
  const positions = new Positions()
  for (const tookMs of [100, 100, 1, 100, 100]) search(positions, { tookMs })
  assert.equal(from(positions), undefined)
  search(positions, { tookMs: 100 })
  assert.deepEqual(from(positions), position(500_000))
  search(positions, { tookMs: 1 })
  assert.equal(from(positions), undefined)
})

test('each second one search starts at the front', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const positions = slow(100)
  vi.advanceTimersByTime(899)
  assert.deepEqual(from(positions), position(500_000))
  vi.advanceTimersByTime(2)
  assert.equal(from(positions), undefined)
})

test('a position is kept for twenty times as long as the search took', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const positions = slow(5)
  vi.advanceTimersByTime(99)
  assert.deepEqual(from(positions), position(500_000))
  vi.advanceTimersByTime(2)
  assert.equal(from(positions), undefined)
})

test('only jobs that are added in front of the position move it back', () => {
  const positions = slow()
  positions.jobReadyAt(position(500_000, 'z'))
  positions.jobReadyAt(position(1, 'a', 1))
  positions.jobReadyNow(0)
  assert.deepEqual(from(positions), position(500_000))
  positions.jobReadyAt(position(500_000, 'b'))
  assert.deepEqual(from(positions), position(500_000, 'b'))
  positions.jobReadyNow(-7)
  assert.deepEqual(from(positions), position(now - 1_000, '', -7))
})

test('jobs that are added during a search are not skipped by it', () => {
  const positions = slow()
  {
    using one = positions.begin('key')
    positions.jobReadyAt(position(600_000))
    one.advance(position(700_000))
  }
  assert.deepEqual(from(positions), position(600_000))
  {
    using one = positions.begin('key')
    positions.jobReadyAt(position(400_000))
    one.advance(position(700_000))
  }
  assert.deepEqual(from(positions), position(400_000))
  {
    using one = positions.begin('key')
    positions.jobReadyNow(-1)
    one.record({ tookMs: 100, now, position: position(800_000) })
  }
  assert.deepEqual(from(positions), position(now - 1_000, '', -1))
  {
    using one = positions.begin('key')
    positions.forget()
    one.record({ tookMs: 100, now, position: position(800_000) })
  }
  assert.equal(from(positions), undefined)
})
