import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import { resolveNewJob } from './add-options.ts'
import { createAnnouncer } from './announcer.ts'
import { createAlarm } from './due-alarm.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

test('an alarm goes off for each instant, soonest first, and not before', () => {
  let wakeUps = 0
  const alarm = createAlarm(() => wakeUps++)
  alarm.set(500)
  alarm.set(100)
  alarm.set(300)
  for (const [ms, expected] of [
    [100, 0],
    [10, 1],
    [190, 1],
    [10, 2],
    [180, 2],
    [20, 3],
    [10_000, 3],
  ] as const) {
    vi.advanceTimersByTime(ms)
    assert.equal(wakeUps, expected)
  }
})

test('an alarm that was cleared is silent', () => {
  const alarm = createAlarm(() => assert.fail('the alarm went off'))
  alarm.set(10)
  alarm.clear()
  vi.advanceTimersByTime(1_000)
})

test('an alarm keeps a bounded number of instants and still goes off for the soonest', () => {
  let wakeUps = 0
  const alarm = createAlarm(() => wakeUps++)
  for (let nth = 0; nth < 5_000; nth++) alarm.set(1_000)
  vi.advanceTimersByTime(1_500)
  assert.ok(wakeUps >= 1 && wakeUps < 10)
})

test('jobs that are due are announced now, once a queue, and delayed ones when they fall due', () => {
  const woken: string[] = []
  const announcer = createAnnouncer({ wake: (topic) => woken.push(topic), listen: () => () => undefined })
  const job = (queue: string, options: object = {}) => resolveNewJob('add', 'mail', {}, { queue, ...options })
  announcer.announce([job('a'), job('a'), job('b', { delayMs: 200 }), job('c', { delayMs: '1h' })])
  assert.deepEqual(woken, ['jobs:a'])
  vi.advanceTimersByTime(250)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
  vi.advanceTimersByTime(7_200_000)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
  announcer.announce([job('b', { delayMs: 100 })])
  announcer.close()
  vi.advanceTimersByTime(1_000)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
})

test('once closed an announcer tells nobody, neither at once nor later', () => {
  const woken: string[] = []
  const announcer = createAnnouncer({ wake: (topic) => woken.push(topic), listen: () => () => undefined })
  const job = (options: object) => resolveNewJob('add', 'mail', {}, options)
  announcer.close()
  announcer.announce([job({}), job({ delayMs: 100 })])
  vi.advanceTimersByTime(1_000)
  assert.deepEqual(woken, [])
})
