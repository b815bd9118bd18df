/** The queue beside the naive model; `SIGNALBOX_TEST_RUNS` walks longer, `npm run soak` longest. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { walk } from './walk.ts'

const runs = Number(process.env.SIGNALBOX_TEST_RUNS ?? 300)

test(
  'a random walk over every operation agrees with the naive model, step by step',
  async () => {
    const { operations } = await walk({ runs })
    assert.ok(operations > runs, `${operations} operations were compared`)
  },
  runs * 1_000 + 20_000,
)

test('short random walks reach rare orders more often', async () => {
  const { operations } = await walk({ runs: runs * 2, steps: 15 })
  assert.ok(operations > runs)
}, 600_000)
