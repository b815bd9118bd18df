/**
 * Contract, "Timers" and the comments on Clock, systemClock and `unref`:
 *  T1  At most one is armed, none when nothing waits or after shutdown.
 *  T2  It is never set for more than ten seconds,
 *  T3  so a stepped clock is noticed within that,
 *  T4  and delays beyond 2^31-1 ms work.
 *  T5  Firing early releases nothing early.
 *  T6  A later due time does not re-arm it.
 *  T7  unref: default false; true: waiting items do not keep the process alive. A handle's unref() is used
 *      when it has one.
 *  T8  systemClock: performance.now() and the global timers.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, systemClock } from 'signalbox/workqueue'
import { test } from 'vitest'
import { HandClock, takeAll } from './probes.ts'

const TEN_SECONDS = 10_000

test('T1: no timer is armed before anything waits', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.add('a')
  queue.addAfter('b', 0)
  queue.tryGet()
  queue.done('a')
  assert.equal(clock.timers.length, 0)
})

test('T1: at most one timer is armed, however many items wait', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<number>({ clock })
  for (let i = 0; i < 500; i++) {
    queue.addAfter(i, ((i * 7_919) % 30_000) + 1, { replace: i % 3 === 0 })
    assert.equal(clock.timerCount, 1)
  }
  for (let i = 0; i < 40; i++) {
    clock.advance(1_000)
    assert.equal(clock.timerCount, queue.waiting > 0 ? 1 : 0)
  }
  assert.equal(queue.waiting, 0)
})

test('T1: no timer is armed after the last waiting item became due, was cancelled or was used up', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock, coalesce: true })
  queue.addAfter('due', 10)
  assert.equal(clock.timerCount, 1)
  clock.advance(10)
  assert.equal(clock.timerCount, 0)
  queue.addAfter('back', 10)
  assert.equal(clock.timerCount, 1)
  queue.cancelAfter('back')
  assert.equal(clock.timerCount, 0)
  queue.addAfter('used', 10)
  assert.equal(clock.timerCount, 1)
  queue.add('used')
  assert.equal(clock.timerCount, 0)
})

test('T1: no timer is armed after shutdown, and one that still fires does nothing', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 10)
  const timer = clock.armed[0]!
  queue.shutDown()
  assert.deepEqual(clock.armed, [])
  clock.time = 100
  timer.callback()
  assert.deepEqual([queue.size, clock.armed.length], [0, 0])
})

test('T1: an earlier due time replaces the timer', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('late', 9_000)
  queue.addAfter('soon', 20)
  assert.deepEqual([clock.timerCount, clock.nextTimerAt], [1, 20])
  clock.advance(20)
  assert.deepEqual(takeAll(queue), ['soon'])
  assert.equal(clock.nextTimerAt, 9_000)
})

test('T1: an item moved earlier is released at its new time', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 9_000)
  queue.addAfter('a', 5)
  clock.advance(5)
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(clock.timerCount, 0)
})

test('the timer is set for the next due time, not for a fixed interval', () => {
  const clock = new HandClock()
  clock.time = 1_000
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 1_234.5)
  assert.equal(clock.armed[0]!.ms, 1_234.5)
})

test('T2: the timer is never set for more than ten seconds', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('minute', 60_000)
  for (let beat = 1; beat <= 6; beat++) {
    assert.equal(queue.size, 0)
    clock.time = beat * TEN_SECONDS
    clock.fire()
  }
  assert.deepEqual(takeAll(queue), ['minute'])
  queue.addAfter('year', 365 * 86_400_000)
  queue.addAfter('ever', Number.POSITIVE_INFINITY)
  for (const { ms } of clock.timers) assert.ok(ms <= TEN_SECONDS && ms >= 0, `armed for ${ms} ms`)
})

test('T2: the timer is never set for more than ten seconds, also after a jump back', () => {
  const clock = new HandClock()
  clock.time = 1e6
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 5_000)
  clock.time = 0
  clock.fire()
  assert.equal(queue.size, 0)
  for (const { ms } of clock.timers) assert.ok(ms <= TEN_SECONDS)
  assert.equal(clock.armed.length, 1)
})

test('T3: a clock stepped forward is noticed within ten seconds', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('hour', 3_600_000)
  clock.advance(1_000)
  clock.jump(3_600_000)
  clock.advance(TEN_SECONDS)
  assert.deepEqual(takeAll(queue), ['hour'])
  assert.equal(clock.timerCount, 0)
})

test('T3: a clock stepped back delays the item until its time on that clock', () => {
  const clock = createFakeClock(100_000)
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 5_000)
  clock.jump(-50_000)
  clock.advance(54_999)
  assert.equal(queue.size, 0)
  clock.advance(1)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('T4: a delay beyond 2^31-1 ms neither fires at once nor gets lost', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  const ms = 2 ** 31 + 1_000
  queue.addAfter('month', ms)
  assert.equal(queue.readyAt('month'), ms)
  clock.advance(ms - 1)
  assert.deepEqual([queue.size, queue.waiting], [0, 1])
  clock.advance(1)
  assert.deepEqual(takeAll(queue), ['month'])
})

test('T4: with the real timers a delay beyond 2^31-1 ms does not fire at once', async () => {
  const queue = new DelayingQueue<string>()
  queue.addAfter('month', 2 ** 31 + 5)
  queue.addAfter('ever', Number.POSITIVE_INFINITY)
  queue.addAfter('soon', 5)
  assert.equal((await queue.get()).item, 'soon')
  assert.deepEqual([queue.size, queue.waiting], [0, 2])
  queue.shutDown()
})

test('T5: a timer that fires early releases nothing and is armed for the rest', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 10)
  clock.time = 9.4
  clock.fire()
  assert.deepEqual([queue.size, queue.waiting], [0, 1])
  assert.equal(clock.armed.length, 1)
  assert.ok(clock.armed[0]!.ms >= 0 && clock.armed[0]!.ms <= 1)
  clock.time = 9.99
  clock.fire()
  assert.equal(queue.size, 0)
  clock.time = 10
  clock.fire()
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(clock.armed.length, 0)
})

test('T5: a timer that fires late releases all due items, in due order, and nothing else', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('c', 30)
  queue.addAfter('a', 10)
  queue.addAfter('b', 20)
  queue.addAfter('d', 40.1)
  clock.time = 40
  clock.fire()
  assert.deepEqual(takeAll(queue), ['a', 'b', 'c'])
  assert.equal(queue.waiting, 1)
})

test('T6: a later due time does not re-arm the timer', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('first', 10)
  for (let i = 0; i < 50; i++) queue.addAfter(`n${i}`, 10 + i)
  queue.addAfter('n3', 500, { replace: true })
  queue.addAfter('first', 700)
  assert.equal(clock.timers.length, 1)
  assert.equal(clock.armed.length, 1)
})

test('T7: by default the timer keeps the process alive: unref is not called', () => {
  for (const options of [{}, { unref: false }]) {
    const clock = new HandClock()
    const queue = new DelayingQueue<string>({ clock, ...options })
    queue.addAfter('a', 50_000)
    clock.time = 10_000
    clock.fire()
    queue.addAfter('b', 5)
    assert.ok(clock.timers.length >= 3)
    assert.ok(clock.timers.every(({ unrefs }) => unrefs === 0))
  }
})

test('T7: with unref every armed timer is unreferenced', () => {
  const clock = new HandClock()
  const queue = new DelayingQueue<string>({ clock, unref: true })
  queue.addAfter('a', 50_000)
  clock.time = 10_000
  clock.fire()
  queue.addAfter('b', 5)
  assert.ok(clock.timers.length >= 3)
  assert.ok(clock.timers.every(({ unrefs }) => unrefs === 1))
})

test('T7: a timer handle without unref works', () => {
  for (const handle of [7, undefined, null, 'handle', {}]) {
    const cleared: unknown[] = []
    const clock = {
      now: () => 0,
      setTimeout: () => handle,
      clearTimeout: (h: unknown) => void cleared.push(h),
    }
    const queue = new DelayingQueue<string>({ clock, unref: true })
    queue.addAfter('a', 10)
    queue.shutDown()
    assert.deepEqual(cleared, [handle])
  }
})

test('T8: systemClock reads performance.now()', () => {
  const before = performance.now()
  const now = systemClock.now()
  assert.ok(now >= before && now <= performance.now())
})

test('T8: systemClock sets and clears the global timers', async () => {
  const fired: string[] = []
  const handle = systemClock.setTimeout(() => fired.push('cleared'), 1)
  assert.equal(typeof (handle as NodeJS.Timeout).unref, 'function')
  systemClock.clearTimeout(handle)
  await new Promise<void>((resolve) => {
    systemClock.setTimeout(() => {
      fired.push('kept')
      resolve()
    }, 5)
  })
  assert.deepEqual(fired, ['kept'])
})

test('on the system clock, which is the default, nothing is released before its time', async () => {
  const queue = new DelayingQueue<number>()
  const dueAt: number[] = []
  for (let i = 0; i < 20; i++) {
    queue.addAfter(i, 1 + i * 0.7)
    dueAt[i] = queue.readyAt(i)!
    assert.ok(Math.abs(dueAt[i]! - (performance.now() + 1 + i * 0.7)) < 1_000)
  }
  for (let i = 0; i < 20; i++) {
    const { item } = await queue.get()
    assert.equal(item, i)
    assert.ok(performance.now() >= dueAt[i]!, `${i} was released early`)
  }
})

/** Runs a script in a new process; returns its output once it has ended. */
async function inProcess(script: string): Promise<string> {
  const args = ['--conditions=source', '--no-warnings', '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 15_000 })
  return stdout.trim()
}

test('T7: waiting items keep the process alive by default, and do not with unref', async () => {
  const script = (options: string, ms: number): string => `
    import { DelayingQueue } from 'signalbox/workqueue'
    const queue = new DelayingQueue(${options})
    queue.addAfter('a', ${ms})
    process.on('exit', () => console.log('left with', queue.size, queue.waiting))
  `
  const [held, freed] = await Promise.all([
    inProcess(script('{}', 50)),
    inProcess(script('{ unref: true }', 600_000)),
  ])
  assert.equal(held, 'left with 1 0')
  assert.equal(freed, 'left with 0 1')
})
