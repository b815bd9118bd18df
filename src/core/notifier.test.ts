import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'vitest'
import { createFakeClock } from './fake-clock.ts'
import { createAlarm, createNotifier } from './notifier.ts'

test('a wake-up wakes all waiters and is not remembered after that', async () => {
  const clock = createFakeClock()
  const notifier = createNotifier()
  const waits = [notifier.wait({ clock }), notifier.wait({ clock, timeoutMs: 50 })]
  notifier.wake()
  assert.deepEqual(await Promise.all(waits), ['woken', 'woken'])
  assert.equal(clock.timerCount, 0)
  assert.equal(await notifier.wait({ clock, timeoutMs: 0 }), 'timeout')
})

test('wake-ups without a waiter are remembered as one', async () => {
  const notifier = createNotifier()
  notifier.wake()
  notifier.wake()
  notifier.wake()
  assert.equal(await notifier.wait({ timeoutMs: 0 }), 'woken')
  assert.equal(await notifier.wait({ timeoutMs: 0 }), 'timeout')
})

test('a wait ends at its time-out, not before, and leaves no timer', async () => {
  const clock = createFakeClock()
  const notifier = createNotifier()
  let ended = false
  const wait = notifier.wait({ clock, timeoutMs: 100 }).finally(() => {
    ended = true
  })
  clock.advance(99)
  await Promise.resolve()
  assert.equal(ended, false)
  clock.advance(1)
  assert.equal(await wait, 'timeout')
  assert.equal(clock.timerCount, 0)
  notifier.wake()
  assert.equal(
    await notifier.wait({ timeoutMs: 0 }),
    'woken',
    'a wait that timed out no longer hears wake-ups',
  )
})

test('an aborted wait leaves no listener and no timer, and uses up no wake-up', async () => {
  const clock = createFakeClock()
  const notifier = createNotifier()
  const controller = new AbortController()
  const { signal } = controller
  const wait = notifier.wait({ clock, timeoutMs: 100, signal })
  assert.equal(clock.timerCount, 1)
  assert.equal(getEventListeners(signal, 'abort').length, 1)
  controller.abort(new Error('enough'))
  await assert.rejects(wait, /enough/)
  assert.equal(clock.timerCount, 0)
  assert.equal(getEventListeners(signal, 'abort').length, 0)

  notifier.wake()
  await assert.rejects(notifier.wait({ signal }), /enough/)
  assert.equal(await notifier.wait({ timeoutMs: 0 }), 'woken')
})

test('a wait that was woken leaves no listener on its signal', async () => {
  const notifier = createNotifier()
  const { signal } = new AbortController()
  for (let i = 0; i < 100; i++) {
    const wait = notifier.wait({ signal })
    notifier.wake()
    await wait
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('a very long time-out does not fire at once', async () => {
  const notifier = createNotifier()
  const wait = notifier.wait({ timeoutMs: Number.MAX_SAFE_INTEGER })
  notifier.wake()
  assert.equal(await wait, 'woken')
  const delays: number[] = []
  const clock = { ...createFakeClock(), setTimeout: (_: () => void, ms: number) => delays.push(ms) }
  void notifier.wait({ clock, timeoutMs: Number.MAX_SAFE_INTEGER })
  assert.deepEqual(delays, [2 ** 31 - 1])
})

test('an invalid time-out is refused', async () => {
  for (const timeoutMs of [-1, Number.NaN]) {
    await assert.rejects(createNotifier().wait({ timeoutMs }), { code: 'invalid_argument' })
  }
})

test('an alarm wakes once for each instant', async () => {
  let wakes = 0
  const alarm = createAlarm(() => void wakes++)
  for (let round = 1; round <= 20; round++) {
    // Timers leave out the fraction.
    alarm.set(5 + round / 21)
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal(wakes, round)
  }
})
