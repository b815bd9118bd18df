import { test } from 'vitest'
import { candidates, threadedCandidates } from './candidates.ts'
import { redisGuards } from './guards/opening.ts'
import { runGuardsWalk } from './guardswalk.ts'

/**
 * `WALK_SEED` walks one walk again; `WALK_STEPS` says how long each is. Without a seed, new ones are drawn for a few
 * seconds on each engine.
 */
const { WALK_SEED, WALK_STEPS } = process.env
const steps = Number(WALK_STEPS ?? 100)
const budgetMs = 2_000

for (const { title, open } of [...candidates(), ...threadedCandidates(), ...redisGuards()]) {
  test(`${title} keeps guards as the memory model does, wherever a random walk goes`, async () => {
    const first = WALK_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(WALK_SEED)
    const began = Date.now()
    let [walks, total] = [0, 0]
    do {
      const counts = await runGuardsWalk({ open, title, seed: first + walks, steps })
      total += Object.values(counts).reduce((sum, count) => sum + count, 0)
      walks++
    } while (WALK_SEED === undefined && Date.now() - began < budgetMs)
    console.log(
      `[walk] ${title}: ${walks} walks of ${steps} steps from seed ${first}, ${total} steps on guards`,
    )
  }, 60_000)
}
