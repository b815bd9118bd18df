import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Holds } from './kinds.ts'

function about(got: number, expected: number): void {
  assert.ok(Math.abs(got - expected) < 1e-6, `${got} instead of ${expected}`)
}

test('only the part of a turn that lies within a wait counts', () => {
  const holds = new Holds()
  holds.add(100, 150)
  holds.add(200, 210)

  about(holds.between(90, 300), 60)
  about(holds.between(120, 205), 35)
  about(holds.between(150, 200), 0)
  about(holds.between(300, 400), 0)
})

test('many short turns share spans and keep their sum', () => {
  const holds = new Holds(64)
  for (let at = 0; at < 200; at += 0.1) holds.add(at, at + 0.02)

  // 20 % of the time; the 64 spans of 4 ms reach back over all of it.
  const busy = holds.between(50, 150)
  assert.ok(Math.abs(busy - 20) < 1, `${busy}`)
})

test('concurrent turns add up', () => {
  const holds = new Holds()
  holds.add(0, 10)
  holds.add(0, 10)

  about(holds.between(0, 10), 20)
})

test('turns further back than the capacity are forgotten', () => {
  const holds = new Holds(4)
  for (let at = 0; at < 100; at += 10) holds.add(at, at + 5)

  about(holds.between(0, 1_000), 20)
  assert.equal(holds.lastAt, 95)
})
