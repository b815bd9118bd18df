import { test } from 'vitest'
import { candidates } from './candidates.ts'
import { runWalk, type WalkCounts } from './walk.ts'

/**
 * `WALK_SEED` repeats one walk; `WALK_STEPS` sets its length. Without a seed, new walks run for `WALK_MS` on each
 * engine.
 */
const { WALK_SEED, WALK_STEPS, WALK_MS } = process.env
const steps = Number(WALK_STEPS ?? 150)
const budgetMs = Number(WALK_MS ?? 500)

for (const { name, open } of candidates()) {
  test(`${name} does what the memory model does in a random walk`, async () => {
    const first = WALK_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(WALK_SEED)
    const began = Date.now()
    const operations: Record<string, number> = {}
    let walks = 0
    do {
      const counts: WalkCounts = await runWalk({ open, seed: first + walks, steps })
      for (const [operation, count] of Object.entries(counts)) {
        operations[operation] = (operations[operation] ?? 0) + count
      }
      walks++
    } while (WALK_SEED === undefined && Date.now() - began < budgetMs)
    const total = Object.values(operations).reduce((sum, count) => sum + count, 0)
    console.log(`[walk] ${name}: ${walks} walks of ${steps} steps from seed ${first}, ${total} operations`)
  }, 60_000)
}
