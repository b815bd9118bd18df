import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createNotifier } from '../../../core/notifier.ts'
import { type ClockJump, createClockWatch } from './clock-watch.ts'

test('a store whose clock is set is told of, with the way it went; one that only runs is not', async () => {
  let offMs = 0
  let looks = 0
  const looked = createNotifier()
  const jumps: ClockJump[] = []
  const { loop, jump } = createClockWatch({
    async now() {
      if (++looks % 3 === 0) looked.wake()
      return performance.now() + offMs
    },
    onJump: (found) => jumps.push(found),
    lookMs: 5,
  })
  try {
    await looked.wait({ timeoutMs: 5_000 })
    assert.deepEqual([jumps, jump()], [[], undefined])
    for (const byMs of [3_600_000, -3_600_000]) {
      offMs += byMs
      await looked.wait({ timeoutMs: 5_000 })
      await looked.wait({ timeoutMs: 5_000 })
      assert.ok(Math.abs(jump()!.byMs - byMs) < 2_000, `${jump()!.byMs}`)
    }
    assert.equal(jumps.length, 2)
  } finally {
    await loop.stop()
  }
})

test('a store that does not answer is told of, and looked at again', async () => {
  const told: string[] = []
  const again = createNotifier()
  let looks = 0
  const { loop } = createClockWatch({
    async now() {
      if (++looks === 1) throw new Error('away')
      again.wake()
      return performance.now()
    },
    onJump: () => assert.fail('no clock was set'),
    onTrouble: (name, trouble) => told.push(`${name} ${trouble}`),
    lookMs: 5,
  })
  try {
    assert.equal(await again.wait({ timeoutMs: 10_000 }), 'woken')
    assert.equal(told[0], 'server.clock failed')
  } finally {
    await loop.stop()
  }
})
