import { test } from 'vitest'
import { candidates, redisCandidates, threadedCandidates } from './candidates.ts'
import { type LocksWalkCounts, runLocksWalk } from './locks-walk.ts'

/**
 * `WALK_SEED` repeats one walk; `WALK_STEPS` sets its length. Without a seed, new walks run for `WALK_MS` on each
 * engine.
 */
const { WALK_SEED, WALK_STEPS, WALK_MS } = process.env
const steps = Number(WALK_STEPS ?? 40)
/** The model and the other engines also run the code of memory and of the thread. */
const fewSteps = Number(WALK_STEPS ?? 30)
const budgetMs = Number(WALK_MS ?? 500)

for (const { title, open } of [...candidates(), ...threadedCandidates(), ...redisCandidates()]) {
  const length = title === 'memory' || title === 'sqlite in a thread' ? fewSteps : steps
  test(`${title} keeps wait queues as the memory model does in a random walk`, async () => {
    const first = WALK_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(WALK_SEED)
    const began = Date.now()
    let [walks, total] = [0, 0]
    do {
      const counts: LocksWalkCounts = await runLocksWalk({ open, title, seed: first + walks, steps: length })
      total += Object.values(counts).reduce((sum, count) => sum + count, 0)
      walks++
      // At least two: in every other walk operations exclude each other.
    } while (WALK_SEED === undefined && (walks < 2 || Date.now() - began < budgetMs))
    console.log(
      `[walk] ${title}: ${walks} walks of ${length} steps from seed ${first}, ${total} steps on wait queues`,
    )
  }, 60_000)
}
