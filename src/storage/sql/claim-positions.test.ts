import assert from 'node:assert/strict'
import { afterEach, test, vi } from 'vitest'
import { type Place, Positions } from './claim-positions.ts'

const now = 1_000_000
const place = (at: number, id = 'm', rank = 0): Place => ({ rank, at, id })

function look(positions: Positions, found: { tookMs: number; place?: Place }): void {
  using one = positions.begin('key')
  one.record({ now, place: place(500_000), ...found })
}

function slow(tookMs = 100): Positions {
  const positions = new Positions()
  for (let i = 0; i < 3; i++) look(positions, { tookMs })
  return positions
}

function from(positions: Positions): Place | undefined {
  using one = positions.begin('key')
  return one.from
}

afterEach(() => void vi.useRealTimers())

test('a look starts at the front unless three looks before it were slow', () => {
  const positions = new Positions()
  for (const tookMs of [100, 100, 1, 100, 100]) look(positions, { tookMs })
  assert.equal(from(positions), undefined)
  look(positions, { tookMs: 100 })
  assert.deepEqual(from(positions), place(500_000))
  look(positions, { tookMs: 1 })
  assert.equal(from(positions), undefined)
})

test('each second one look starts at the front', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const positions = slow(100)
  vi.advanceTimersByTime(899)
  assert.deepEqual(from(positions), place(500_000))
  vi.advanceTimersByTime(2)
  assert.equal(from(positions), undefined)
})

test('a position is kept for twenty times as long as the look took', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const positions = slow(5)
  vi.advanceTimersByTime(99)
  assert.deepEqual(from(positions), place(500_000))
  vi.advanceTimersByTime(2)
  assert.equal(from(positions), undefined)
})

test('only jobs that are added in front of the position move it back', () => {
  const positions = slow()
  positions.jobReadyAt(place(500_000, 'z'))
  positions.jobReadyAt(place(1, 'a', 1))
  positions.jobReadyNow(0)
  assert.deepEqual(from(positions), place(500_000))
  positions.jobReadyAt(place(500_000, 'b'))
  assert.deepEqual(from(positions), place(500_000, 'b'))
  positions.jobReadyNow(-7)
  assert.deepEqual(from(positions), place(now - 1_000, '', -7))
})

test('jobs that are added during a look are not skipped by it', () => {
  const positions = slow()
  {
    using one = positions.begin('key')
    positions.jobReadyAt(place(600_000))
    one.advance(place(700_000))
  }
  assert.deepEqual(from(positions), place(600_000))
  {
    using one = positions.begin('key')
    positions.jobReadyAt(place(400_000))
    one.advance(place(700_000))
  }
  assert.deepEqual(from(positions), place(400_000))
  {
    using one = positions.begin('key')
    positions.jobReadyNow(-1)
    one.record({ tookMs: 100, now, place: place(800_000) })
  }
  assert.deepEqual(from(positions), place(now - 1_000, '', -1))
  {
    using one = positions.begin('key')
    positions.forget()
    one.record({ tookMs: 100, now, place: place(800_000) })
  }
  assert.equal(from(positions), undefined)
})
