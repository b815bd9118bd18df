import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createHistory, historyLimits } from './activity-history.ts'

const { stepMs, keepMs, namespaces } = historyLimits
const begin = 1_800_000_000_000

function atHand(): { history: ReturnType<typeof createHistory>; pass(ms: number): void } {
  let now = begin
  return {
    history: createHistory(() => now),
    pass(ms) {
      now += ms
    },
  }
}

test('what happens within five seconds is one sample, and what happens later the next', () => {
  const { history, pass } = atHand()
  history.added('eu', 3)
  history.ended('eu', 'completed', 10)
  pass(stepMs)
  history.ended('eu', 'dead', undefined)
  history.ended('eu', 'retried', 5)
  const [first, second, ...more] = history.samples('eu', 0)
  assert.deepEqual([first!.at, first!.added, first!.completed], [begin, 3, 1])
  assert.deepEqual([second!.at, second!.dead, second!.retried, second!.added], [begin + stepMs, 1, 1, 0])
  assert.deepEqual(more, [])
  assert.deepEqual(history.samples('us', 0), [])
})

test('steps in which nothing happened are left out, and an hour is kept', () => {
  const { history, pass } = atHand()
  history.added('eu', 1)
  pass(keepMs - stepMs)
  history.added('eu', 2)
  assert.deepEqual(
    history.samples('eu', 0).map(({ added }) => added),
    [1, 2],
  )
  pass(2 * stepMs)
  history.added('eu', 3)
  assert.deepEqual(
    history.samples('eu', 0).map(({ added }) => added),
    [2, 3],
  )
})

test('only samples from an instant on are told when that is asked', () => {
  const { history, pass } = atHand()
  history.added('eu', 1)
  pass(stepMs)
  history.added('eu', 2)
  assert.deepEqual(
    history.samples('eu', begin + stepMs).map(({ added }) => added),
    [2],
  )
})

test('percentiles are right within a fifth, from below a millisecond to an hour', () => {
  for (const ms of [2, 17, 250, 3_000, 90_000, 3_600_000]) {
    const { history } = atHand()
    for (let nth = 0; nth < 99; nth++) history.waited('eu', ms)
    history.waited('eu', ms * 100)
    const [sample] = history.samples('eu', 0)
    assert.ok(Math.abs(sample!.waitP50Ms! / ms - 1) < 0.2, `${ms}: ${sample!.waitP50Ms}`)
    assert.ok(sample!.waitP99Ms! < ms * 1.2)
    assert.equal(sample!.runP50Ms, null)
  }
})

test('a calendar that is set back puts nothing before what is there', () => {
  const { history, pass } = atHand()
  history.added('eu', 1)
  pass(-60_000)
  history.added('eu', 1)
  assert.deepEqual(
    history.samples('eu', 0).map(({ at, added }) => [at, added]),
    [[begin, 2]],
  )
})

test('of more namespaces than there is room for, the longest quiet is forgotten', () => {
  const { history, pass } = atHand()
  for (let nth = 0; nth <= namespaces; nth++) {
    history.added(`n${nth}`, 1)
    pass(stepMs)
    history.added('busy', 1)
  }
  assert.deepEqual(history.samples('n0', 0), [])
  assert.ok(history.samples('busy', 0).length > 0)
})
