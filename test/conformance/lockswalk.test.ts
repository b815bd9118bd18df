import { test } from 'vitest'
import { candidates, redisCandidates, threadedCandidates } from './candidates.ts'
import { type LocksWalkCounts, runLocksWalk } from './lockswalk.ts'

/**
 * `WALK_SEED` walks one walk again; `WALK_STEPS` says how long each is. Without a seed, new ones are drawn for a few
 * seconds on each engine.
 */
const { WALK_SEED, WALK_STEPS } = process.env
const steps = Number(WALK_STEPS ?? 150)
const budgetMs = 4_000

for (const { title, open } of [...candidates(), ...threadedCandidates(), ...redisCandidates()]) {
  test(`${title} keeps lines as the memory model does, wherever a random walk goes`, async () => {
    const first = WALK_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(WALK_SEED)
    const began = Date.now()
    let [walks, total] = [0, 0]
    do {
      const counts: LocksWalkCounts = await runLocksWalk({ open, title, seed: first + walks, steps })
      total += Object.values(counts).reduce((sum, count) => sum + count, 0)
      walks++
      // Two at least: operations exclude each other in every other one.
    } while (WALK_SEED === undefined && (walks < 2 || Date.now() - began < budgetMs))
    console.log(
      `[walk] ${title}: ${walks} walks of ${steps} steps from seed ${first}, ${total} steps on lines`,
    )
  }, 60_000)
}
