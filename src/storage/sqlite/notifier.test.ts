import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Watch } from './connection/data-version.ts'
import { SqliteNotifier } from './notifier.ts'

/** A notifier whose neighbours commit when the test says so. */
function setUp() {
  const starts: (() => void)[] = []
  let stops = 0
  const watch: Watch = {
    start: (heard) => starts.push(heard),
    stop: () => {
      stops++
    },
  }
  const notifier = new SqliteNotifier(watch)
  return { notifier, committed: () => starts.at(-1)?.(), started: () => starts.length, stopped: () => stops }
}

test('a wake-up costs nothing for listeners to other topics', () => {
  const { notifier } = setUp()
  const mine = notifier.within('a')
  let [heard, others] = [0, 0]
  for (let i = 0; i < 20_000; i++) mine.listen([`topic ${i}`, `other ${i}`], () => others++)
  mine.listen(['mine'], () => heard++)
  const began = performance.now()
  for (let i = 0; i < 20_000; i++) mine.wake('mine')
  assert.deepEqual([heard, others], [20_000, 0])
  assert.ok(performance.now() - began < 2_000, 'going through all who listen would take far longer')
})

test('a commit of another process wakes every listener, of any namespace and topic, once', () => {
  const { notifier, committed } = setUp()
  const heard: string[] = []
  notifier.within('a').listen(['x', 'y'], () => heard.push('a'))
  notifier.within('b').listen(['x'], () => heard.push('b'))
  committed()
  assert.deepEqual(heard, ['a', 'b'])
})

test('the notifier watches other processes only while it has listeners', () => {
  const { notifier, started, stopped } = setUp()
  const stop = notifier.within('a').listen(['x'], () => {})
  const stopToo = notifier.within('b').listen(['x'], () => {})
  assert.deepEqual([started(), stopped()], [1, 0])
  stop()
  stop()
  assert.equal(stopped(), 0, 'one is left, and stopping twice is stopping once')
  stopToo()
  assert.deepEqual([started(), stopped()], [1, 1])
  notifier.within('a').listen(['x'], () => {})
  assert.equal(started(), 2)
})

test('a listener that stops in the middle of a wake-up is not called by the next', () => {
  const { notifier } = setUp()
  const { listen, wake } = notifier.within('a')
  const heard: string[] = []
  const stop = listen(['x'], () => {
    heard.push('first')
    stop()
    listen(['x'], () => heard.push('late'))
  })
  wake('x')
  assert.deepEqual(heard, ['first'])
  wake('x')
  assert.deepEqual(heard, ['first', 'late'])
})
