import assert from 'node:assert/strict'
import { test, vi } from 'vitest'
import { createHints } from './hints.ts'

test('many hints within a second cause two requests: one at once, one at its end', () => {
  vi.useFakeTimers()
  try {
    const asked: string[] = []
    const hint = createHints((topic) => asked.push(topic), 1_000)
    for (let nth = 0; nth < 50; nth++) hint('jobs')
    hint('queues')
    assert.deepEqual(asked, ['jobs', 'queues'])
    vi.advanceTimersByTime(999)
    assert.equal(asked.length, 2)
    vi.advanceTimersByTime(2)
    assert.deepEqual(asked, ['jobs', 'queues', 'jobs'])
    vi.advanceTimersByTime(10_000)
    assert.equal(asked.length, 3)
    hint('jobs')
    assert.equal(asked.length, 4)
  } finally {
    vi.useRealTimers()
  }
})
