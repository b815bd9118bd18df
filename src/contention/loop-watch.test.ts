import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { Kinds } from './kinds.ts'
import { LoopWatch } from './loop-watch.ts'

test('lateness while this process was idle is charged to the host', async () => {
  const kinds = new Kinds(16)
  const holder = (name: string) => kinds.get(kinds.of(name))
  const named = { gc: holder('gc'), eventLoop: holder('event-loop'), host: holder('host') }
  const clock = { now: 1_000, activeMs: 10 }
  const late: number[] = []
  const watch = new LoopWatch(
    {
      kinds,
      now: () => clock.now,
      activeMs: () => clock.activeMs,
      timerWaited: (dueAt, firedAt) => late.push(firedAt - dueAt),
      onTick: () => undefined,
    },
    named,
  )
  watch.start()
  try {
    // The clock goes on by 525 ms between two ticks, and the loop was busy for 100 of them.
    clock.now += 525
    clock.activeMs += 100
    watch.look()
  } finally {
    watch.stop()
  }
  await sleep(0)

  assert.deepEqual(late, [500])
  assert.equal(named.host.hold!.maxMs, 400)
  assert.equal(named.eventLoop.hold!.maxMs, 100)
})

test('the watch wakes a busy thread about 40 times a second at most', async () => {
  const kinds = new Kinds(16)
  const holder = (name: string) => kinds.get(kinds.of(name))
  const named = { gc: holder('gc'), eventLoop: holder('event-loop'), host: holder('host') }
  let ticks = 0
  const watch = new LoopWatch(
    {
      kinds,
      now: () => performance.now(),
      // Busy all the time, so the watch keeps its full pace.
      activeMs: () => performance.now(),
      timerWaited: () => undefined,
      onTick: () => ticks++,
    },
    named,
  )
  const startedAt = performance.now()
  watch.start()
  try {
    while (ticks < 8) await sleep(1)
  } finally {
    watch.stop()
  }

  const elapsedMs = performance.now() - startedAt
  // Node may count a timer from a moment ago, so a few milliseconds may be missing.
  assert.ok(elapsedMs >= 160, `8 ticks in ${elapsedMs} ms`)
})
