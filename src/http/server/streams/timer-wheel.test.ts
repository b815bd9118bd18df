import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { createWheel } from './timer-wheel.ts'

test('each is visited once a period, and many who came at once are spread over it', () => {
  const clock = createFakeClock()
  const visits: { nth: number; at: number }[] = []
  const wheel = createWheel<number>({
    periodMs: 15_000,
    visit: (nth) => visits.push({ nth, at: clock.now() }),
    clock,
  })
  for (let nth = 0; nth < 600; nth++) wheel.add(nth)
  assert.equal(clock.timerCount, 1)
  clock.advance(15_000)
  assert.deepEqual(
    visits.map(({ nth }) => nth).sort((a, b) => a - b),
    Array.from({ length: 600 }, (_, nth) => nth),
  )
  const perTurn = Object.values(Object.groupBy(visits, ({ at }) => at)).map((some) => some!.length)
  assert.deepEqual(perTurn, new Array(60).fill(10))
  clock.advance(15_000)
  assert.equal(visits.length, 1_200)
})

test('a removed member is not visited any more, and an empty wheel has no timer', () => {
  const clock = createFakeClock()
  const visited: string[] = []
  const wheel = createWheel<string>({ periodMs: 1_000, visit: (name) => visited.push(name), clock })
  const slots = ['a', 'b'].map((name) => wheel.add(name))
  wheel.delete('a', slots[0]!)
  wheel.delete('a', slots[0]!)
  assert.equal(wheel.size, 1)
  assert.deepEqual([...wheel], ['b'])
  clock.advance(1_000)
  assert.deepEqual(visited, ['b'])
  wheel.delete('b', slots[1]!)
  assert.equal(clock.timerCount, 0)
  wheel.add('c')
  clock.advance(1_000)
  assert.deepEqual(visited, ['b', 'c'])
})

test('a visit may take things off and put things on', () => {
  const clock = createFakeClock()
  const visited: string[] = []
  const wheel = createWheel<string>({
    periodMs: 100,
    visit(name) {
      visited.push(name)
      wheel.delete(name, 0)
      if (name === 'a') wheel.add('b')
    },
    clock,
  })
  wheel.add('a')
  clock.advance(100)
  assert.deepEqual(visited, ['a'])
  clock.advance(100)
  assert.deepEqual(visited, ['a', 'b'])
  assert.equal(wheel.size, 0)
  assert.equal(clock.timerCount, 0)
})
