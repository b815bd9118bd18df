import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { StopSignal } from '../job-store.ts'
import { Stop } from './stop-signal.ts'

test('a stop calls each listener once, and later listeners at once', () => {
  const stop = new Stop()
  const heard: string[] = []
  const gone = () => void heard.push('gone')
  stop.addEventListener('abort', gone)
  stop.addEventListener('abort', () => void heard.push(`told ${stop.reason}`))
  stop.removeEventListener('abort', gone)
  stop.throwIfAborted()
  stop.stop('first')
  stop.stop('second')
  assert.deepEqual(heard, ['told first'])
  assert.throws(
    () => stop.throwIfAborted(),
    (reason) => reason === 'first',
  )
})

test("Node's own signals also work", () => {
  const controller = new AbortController()
  const signal: StopSignal = controller.signal
  let isHeard = false
  signal.addEventListener('abort', () => {
    isHeard = true
  })
  controller.abort(new Error('over'))
  assert.ok(isHeard && signal.aborted)
  assert.throws(() => signal.throwIfAborted(), /over/)
})
