import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from './fake-clock.ts'
import { createLoop, type LoopEvents, type StepContext, type StepOutcome } from './loop.ts'
import { createNotifier } from './notifier.ts'

/** Turns of the event loop until something holds; no time passes, the test's own time-out is the limit. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate)
}

/** A step that plays a script, one act a call, and then stays idle. */
function scripted(...acts: ((context: StepContext) => Promise<StepOutcome> | StepOutcome)[]) {
  const step = (context: StepContext) => {
    const act = acts[step.calls++]
    return act ? act(context) : 'idle'
  }
  step.calls = 0
  return step
}

const never = () => new Promise<StepOutcome>(() => {})
const fail = (error: unknown) => () => Promise.reject(error)

test('a loop continues while there is more, then sleeps until its time or a wake-up', async () => {
  const clock = createFakeClock()
  const notifier = createNotifier()
  const more = () => 'more' as const
  const step = scripted(more, more, () => undefined)
  await using _loop = createLoop({ name: 'claim', step, clock, notifier, idleMs: 500 })
  await until(() => step.calls === 3 && clock.timerCount > 0)
  clock.advance(499)
  await new Promise(setImmediate)
  assert.equal(step.calls, 3)
  clock.advance(1)
  await until(() => step.calls === 4)
  for (let calls = 5; calls < 50; calls++) {
    notifier.wake()
    await until(() => step.calls === calls)
  }
  await new Promise(setImmediate)
  assert.equal(
    clock.timerCount,
    2,
    'a sleep that a wake-up ended leaves no timer: these are of the present one',
  )
})

test('the first step waits for the caller to finish its turn', async () => {
  const clock = createFakeClock()
  const step = scripted()
  const loop = createLoop({ name: 'claim', step, clock })
  assert.equal(step.calls, 0)
  const { ended } = await loop.stop()
  assert.equal(ended, true)
  assert.equal(clock.timerCount, 0)
})

test('a loop with endless work, or endless wake-ups, lets timers and I/O have their turn', async () => {
  for (const outcome of ['more', 'idle'] as const) {
    const notifier = createNotifier()
    const step = () => {
      notifier.wake()
      return outcome
    }
    const loop = createLoop({ name: 'busy', step, notifier, clock: createFakeClock() })
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 0))
    assert.equal((await loop.stop()).ended, true)
  }
})

test('a step that throws anything is reported, backed off and tried again', async () => {
  const clock = createFakeClock()
  const step = scripted(
    fail(new Error('store down')),
    () => {
      throw undefined
    },
    fail(null),
  )
  const backoff = { baseMs: 100, factor: 2, maxMs: 300, jitter: 0 }
  await using loop = createLoop({ name: 'claim', step, clock, backoff })
  const seen: unknown[] = []
  loop.events.on('failed', (event) => seen.push(event))
  loop.events.on('recovered', (event) => seen.push(event))
  for (const [calls, waitMs] of [
    [1, 100],
    [2, 200],
    [3, 300],
  ] as const) {
    await until(() => step.calls === calls && clock.nextTimerAt === clock.now() + waitMs)
    clock.advance(waitMs)
  }
  await until(() => seen.length === 4)
  assert.deepEqual(seen, [
    { error: new Error('store down'), failureCount: 1, retryInMs: 100 },
    { error: undefined, failureCount: 2, retryInMs: 200 },
    { error: null, failureCount: 3, retryInMs: 300 },
    { failureCount: 3 },
  ])
})

test('after a success the back-off starts again', async () => {
  const clock = createFakeClock()
  const step = scripted(fail(1), () => 'more', fail(2))
  await using loop = createLoop({ name: 'claim', step, clock, backoff: { jitter: 0 } })
  const counts: number[] = []
  loop.events.on('failed', ({ failureCount }) => counts.push(failureCount))
  await until(() => counts.length === 1 && clock.timerCount > 0)
  clock.advance(100)
  await until(() => counts.length === 2)
  assert.deepEqual(counts, [1, 1])
})

test('a wake-up does not shorten a back-off', async () => {
  const clock = createFakeClock()
  const notifier = createNotifier()
  const step = scripted(fail(1))
  await using loop = createLoop({ name: 'claim', step, clock, notifier, backoff: { jitter: 0 } })
  await loop.events.once('failed')
  notifier.wake()
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  assert.equal(step.calls, 1)
  clock.advance(100)
  await until(() => step.calls >= 2)
})

test('a notifier that throws or hangs cannot stop the polling', async () => {
  const clock = createFakeClock()
  const step = scripted()
  const broken = {
    wait: () => {
      throw new Error('connection lost')
    },
  }
  await using loop = createLoop({ name: 'claim', step, clock, notifier: broken, backoff: { jitter: 0 } })
  const { error } = await loop.events.once('failed')
  assert.match(String(error), /connection lost/)
  await until(() => clock.timerCount > 0)
  clock.advance(100)
  await until(() => step.calls === 2)

  const polling = scripted()
  await using _deaf = createLoop({ name: 'deaf', step: polling, clock, notifier: { wait: never as never } })
  await until(() => polling.calls === 1 && clock.timerCount > 0)
  clock.advance(1_000)
  await until(() => polling.calls === 2)
})

test('a hanging step is noticed, aborted and replaced, and its late answer is ignored', async () => {
  const clock = createFakeClock()
  const hung = Promise.withResolvers<StepOutcome>()
  let signal: AbortSignal | undefined
  const step = scripted((context) => {
    signal = context.signal
    return hung.promise
  })
  await using loop = createLoop({ name: 'claim', step, clock, watchdogMs: 5_000 })
  await until(() => step.calls === 1)
  clock.advance(4_999)
  assert.equal(loop.healthy, true)
  const healthWhenStalled: boolean[] = []
  loop.events.on('stalled', () => healthWhenStalled.push(loop.healthy))
  const stalled = loop.events.once('stalled')
  clock.advance(1)
  assert.deepEqual(healthWhenStalled, [false])
  assert.deepEqual(await stalled, { stalledMs: 5_000, restarts: 1 })
  assert.equal(signal!.aborted, true)
  assert.match(String(signal!.reason), /"claim" made no progress for 5000 ms/)
  await until(() => step.calls === 2 && loop.healthy)
  assert.equal(loop.restarts, 1)
  assert.equal(loop.lastProgressAt, 5_000)

  const late = loop.events.once('late')
  hung.resolve('more')
  await late
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
  assert.equal(step.calls, 2, 'the old generation does not go on beside the new one')
})

test('a hung step that rejects late is not an unhandled rejection', async () => {
  const clock = createFakeClock()
  const hung = Promise.withResolvers<StepOutcome>()
  await using loop = createLoop({ name: 'claim', step: scripted(() => hung.promise), clock, watchdogMs: 100 })
  await until(() => clock.timerCount > 0)
  clock.advance(100)
  const late = loop.events.once('late')
  hung.reject(new Error('too late'))
  assert.deepEqual(await late, { error: new Error('too late') })
  assert.equal(loop.restarts, 1)
})

test('a long step that reports progress is left alone', async () => {
  const clock = createFakeClock()
  let context: StepContext | undefined
  const step = scripted((given) => {
    context = given
    return never()
  })
  const loop = createLoop({ name: 'sweep', step, clock, watchdogMs: 100 })
  await until(() => step.calls === 1)
  for (let i = 0; i < 10; i++) {
    clock.advance(90)
    context!.progress()
  }
  assert.equal(loop.lastProgressAt, 900)
  assert.equal(loop.restarts, 0)
  clock.advance(100)
  assert.equal(loop.restarts, 1)
  context!.progress()
  assert.equal(loop.lastProgressAt, 900, 'an abandoned step makes no progress')
  const stop = loop.stop({ graceMs: 10 })
  clock.advance(10)
  assert.deepEqual(await stop, { ended: false })
})

test('a process that froze gives its step one more period, and only one', async () => {
  const clock = createFakeClock()
  const loop = createLoop({ name: 'claim', step: scripted(never), clock, watchdogMs: 1_000 })
  await until(() => clock.timerCount > 0)
  clock.jump(60_000)
  clock.advance(1_000)
  assert.equal(loop.restarts, 0)
  clock.jump(60_000)
  clock.advance(1_000)
  assert.equal(loop.restarts, 1)
  const stop = loop.stop({ graceMs: 0 })
  clock.advance(0)
  await stop
})

test('a loop whose steps only fail is unhealthy after the watchdog time, and healthy after a good step', async () => {
  const clock = createFakeClock()
  const step = scripted(fail(1), fail(2))
  const backoff = { baseMs: 1_000, factor: 1, jitter: 0 }
  await using loop = createLoop({ name: 'claim', step, clock, watchdogMs: 1_500, backoff })
  await until(() => step.calls === 1 && clock.timerCount > 0)
  assert.equal(loop.healthy, true)
  clock.advance(1_000)
  await until(() => step.calls === 2 && clock.timerCount > 0)
  clock.advance(500)
  assert.equal(loop.healthy, false)
  clock.advance(500)
  await until(() => step.calls === 3 && loop.healthy)
})

test('stop aborts the step, waits for it and leaves no timer', async () => {
  const clock = createFakeClock()
  const step = scripted(
    ({ signal }) =>
      new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
      ),
  )
  const loop = createLoop({ name: 'claim', step, clock })
  const failures: LoopEvents['failed'][] = []
  loop.events.on('failed', (event) => failures.push(event))
  await until(() => step.calls === 1)
  const stopped = loop.events.once('stopped')
  assert.deepEqual(await loop.stop(), { ended: true })
  assert.deepEqual(await stopped, { ended: true })
  assert.deepEqual(failures, [], 'a step that ends because it was told to has not failed')
  assert.equal(clock.timerCount, 0)
  assert.equal(loop.healthy, false)
  assert.deepEqual(await loop.stop(), { ended: true })
})

test('stop wakes a sleeping loop and one in back-off', async () => {
  for (const act of [() => 'idle' as const, fail(1)]) {
    const clock = createFakeClock()
    const loop = createLoop({ name: 'claim', step: scripted(act), clock })
    await until(() => clock.timerCount > 0)
    assert.deepEqual(await loop.stop(), { ended: true })
    assert.equal(clock.timerCount, 0)
  }
})

test('stop does not wait for a hung step beyond its grace', async () => {
  const clock = createFakeClock()
  const hung = Promise.withResolvers<StepOutcome>()
  const step = scripted(() => hung.promise)
  const loop = createLoop({ name: 'claim', step, clock, watchdogMs: 60_000 })
  await until(() => step.calls === 1)
  const stop = loop.stop({ graceMs: 200 })
  clock.advance(200)
  assert.deepEqual(await stop, { ended: false })
  hung.resolve('more')
  assert.deepEqual(await loop.stop(), { ended: true })
  assert.equal(clock.timerCount, 0)
  assert.equal(step.calls, 1)
})

test('a stopping loop starts no step, however long the stop takes', async () => {
  const clock = createFakeClock()
  const step = scripted(never)
  const loop = createLoop({ name: 'claim', step, clock, watchdogMs: 100 })
  await until(() => step.calls === 1)
  const stop = loop.stop({ graceMs: 500 })
  clock.advance(500)
  assert.deepEqual(await stop, { ended: false })
  assert.equal(loop.restarts, 0)
  assert.equal(step.calls, 1)
  assert.equal(clock.timerCount, 0)
})

test('a listener that throws does not disturb the loop', async () => {
  const print = console.error
  console.error = () => {}
  try {
    const clock = createFakeClock()
    const step = scripted(fail(1))
    await using loop = createLoop({ name: 'claim', step, clock, backoff: { jitter: 0 } })
    loop.events.on('failed', () => {
      throw new Error('log full')
    })
    await until(() => clock.timerCount > 0)
    clock.advance(100)
    await until(() => step.calls === 2)
  } finally {
    console.error = print
  }
})
