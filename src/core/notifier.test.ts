import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'vitest'
import { createFakeClock } from './fake-clock.ts'
import { createBell } from './notifier.ts'

test('a ring wakes everyone who waits and is not remembered after that', async () => {
  const clock = createFakeClock()
  const bell = createBell()
  const waits = [bell.wait({ clock }), bell.wait({ clock, timeoutMs: 50 })]
  bell.ring()
  assert.deepEqual(await Promise.all(waits), ['rung', 'rung'])
  assert.equal(clock.timerCount, 0)
  assert.equal(await bell.wait({ clock, timeoutMs: 0 }), 'timeout')
})

test('rings that nobody hears are remembered as one', async () => {
  const bell = createBell()
  bell.ring()
  bell.ring()
  bell.ring()
  assert.equal(await bell.wait({ timeoutMs: 0 }), 'rung')
  assert.equal(await bell.wait({ timeoutMs: 0 }), 'timeout')
})

test('a wait ends at its time-out, not before, and leaves no timer', async () => {
  const clock = createFakeClock()
  const bell = createBell()
  let ended = false
  const wait = bell.wait({ clock, timeoutMs: 100 }).finally(() => {
    ended = true
  })
  clock.advance(99)
  await Promise.resolve()
  assert.equal(ended, false)
  clock.advance(1)
  assert.equal(await wait, 'timeout')
  assert.equal(clock.timerCount, 0)
  bell.ring()
  assert.equal(await bell.wait({ timeoutMs: 0 }), 'rung', 'a wait that timed out no longer hears rings')
})

test('an aborted wait leaves no listener and no timer, and takes no ring', async () => {
  const clock = createFakeClock()
  const bell = createBell()
  const controller = new AbortController()
  const { signal } = controller
  const wait = bell.wait({ clock, timeoutMs: 100, signal })
  assert.equal(clock.timerCount, 1)
  assert.equal(getEventListeners(signal, 'abort').length, 1)
  controller.abort(new Error('enough'))
  await assert.rejects(wait, /enough/)
  assert.equal(clock.timerCount, 0)
  assert.equal(getEventListeners(signal, 'abort').length, 0)

  bell.ring()
  await assert.rejects(bell.wait({ signal }), /enough/)
  assert.equal(await bell.wait({ timeoutMs: 0 }), 'rung')
})

test('a wait that was rung leaves no listener on its signal', async () => {
  const bell = createBell()
  const { signal } = new AbortController()
  for (let i = 0; i < 100; i++) {
    const wait = bell.wait({ signal })
    bell.ring()
    await wait
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('a very long time-out does not fire at once', async () => {
  const bell = createBell()
  const wait = bell.wait({ timeoutMs: Number.MAX_SAFE_INTEGER })
  bell.ring()
  assert.equal(await wait, 'rung')
  const delays: number[] = []
  const clock = { ...createFakeClock(), setTimeout: (_: () => void, ms: number) => delays.push(ms) }
  void bell.wait({ clock, timeoutMs: Number.MAX_SAFE_INTEGER })
  assert.deepEqual(delays, [2 ** 31 - 1])
})

test('a time-out that is no time is refused', async () => {
  for (const timeoutMs of [-1, Number.NaN]) {
    await assert.rejects(createBell().wait({ timeoutMs }), { code: 'invalid_argument' })
  }
})
