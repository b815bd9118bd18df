import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import { open } from '../../../index.ts'

test('more jobs than are counted in one go are counted piece by piece, by queue, kind and priority', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-counts-'))
  try {
    await using box = await open(`sqlite:${join(folder, 'jobs.db')}?synchronous=normal`, { migrate: true })
    const add = (
      count: number,
      options: { queue: string; kind: string; priority?: number; runAt?: number },
    ) => box.jobs.addMany(Array.from({ length: count }, () => options))
    // One line is longer than a piece, with jobs of one instant on both sides of its end.
    for (let times = 0; times < 21; times++) await add(1_000, { queue: 'b', kind: 'x', runAt: 2_000 })
    await add(7, { queue: 'b', kind: 'x', priority: 5, runAt: 3_000 })
    await add(5, { queue: 'b', kind: 'y', priority: -1, runAt: 1_000 })
    await add(3, { queue: 'a', kind: 'z', runAt: 4_000 })
    await add(2, { queue: 'c', kind: 'x', runAt: 5_000 })
    await add(1, { queue: 'c', kind: 'x', runAt: Date.now() + 3_600_000 })
    const lines = await box.jobs.stats()
    assert.deepEqual(
      lines.map(({ queue, ready, scheduled, oldestReadyAt }) => [queue, ready, scheduled, oldestReadyAt]),
      [
        ['a', 3, 0, 4_000],
        ['b', 21_012, 0, 1_000],
        ['c', 2, 1, 5_000],
      ],
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
