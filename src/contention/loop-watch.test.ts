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
    // The clock goes on by 510 ms between two ticks, and the loop was busy for 100 of them.
    clock.now += 510
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
