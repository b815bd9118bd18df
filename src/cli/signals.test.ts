import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import { listenForStop, type StopSignal } from './signals.ts'

const kinds = ['SIGINT', 'SIGTERM'] as const
let reasons: string[]
let stop: StopSignal

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] })
  reasons = []
  stop = listenForStop(60_000, ((why: string) => reasons.push(why)) as never)
})

afterEach(() => {
  vi.useRealTimers()
  for (const kind of kinds) process.off(kind, process.listeners(kind).at(-1)!)
})

/** As the system would; the process does not end, because it has a listener. */
function send(kind: (typeof kinds)[number]): void {
  process.emit(kind, kind)
}

test('a Ctrl+C that npm also passes on counts as one signal', async () => {
  assert.equal(stop.isAsked, false)
  send('SIGINT')
  send('SIGINT')
  await stop.asked
  assert.deepEqual([stop.isAsked, reasons], [true, []])
})

test('a second Ctrl+C, or a signal of another kind, ends the program at once', () => {
  send('SIGINT')
  send('SIGTERM')
  assert.deepEqual(reasons, ['A second signal arrived'])
  vi.advanceTimersByTime(1_000)
  send('SIGINT')
  assert.deepEqual(reasons, ['A second signal arrived', 'A second signal arrived'])
})

test('a stop that takes too long is ended', () => {
  send('SIGTERM')
  vi.advanceTimersByTime(60_000)
  assert.deepEqual(reasons, ['Closing took too long'])
})
