import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SeededRandom, Sessions } from './choose-node.ts'

test('a session is known until its time is over, and each use extends it', () => {
  const sessions = new Sessions(100, 10)
  sessions.bind('s', 'n', 0)
  sessions.bind('s', 'm', 60)
  assert.equal(sessions.find('s', 159), 'm')
  assert.equal(sessions.find('s', 160), undefined)
})

test('of too many sessions the longest unused are forgotten', () => {
  const sessions = new Sessions(1_000, 3)
  for (const session of ['a', 'b', 'c']) sessions.bind(session, 'n', 0)
  sessions.bind('a', 'n', 1)
  sessions.bind('d', 'n', 2)
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((session) => sessions.find(session, 3)),
    ['n', undefined, 'n', 'n'],
  )
  assert.equal(sessions.size, 3)
})

test('random generators with one seed give the same even sequence, and a seed of zero works too', () => {
  const a = new SeededRandom(42)
  const b = new SeededRandom(42)
  const counts = [0, 0, 0, 0, 0, 0]
  for (let i = 0; i < 6_000; i += 1) {
    const face = a.nextBelow(6)
    assert.equal(face, b.nextBelow(6))
    counts[face]! += 1
  }
  assert.ok(Math.min(...counts) > 800, counts.join(' '))
  assert.ok(
    new Set(
      Array.from(
        { length: 20 },
        (
          (random) => () =>
            random.nextBelow(1_000)
        )(new SeededRandom(0)),
      ),
    ).size > 10,
  )
})
