/** What `stats()` takes while a million jobs are ready: every server asks it for the overview and the list of queues. */
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from './ground.ts'
import { createPlace } from './place.ts'

const million = 1_000_000
const piece = 5_000

const counted =
  (engine: 'postgres' | 'mariadb' | 'sqlite'): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using box = await open(place.url, { migrate: true })
    for (let from = 0; from < million; from += piece) {
      await box.jobs.addMany(
        Array.from({ length: piece }, (_, at) => ({ kind: 'noop', payload: { number: from + at } })),
      )
    }
    await place.settleDown()
    const took: number[] = []
    for (let round = 0; round < 20; round++) {
      const startedAt = performance.now()
      const queues = await box.jobs.stats()
      took.push(performance.now() - startedAt)
      const [queue] = queues
      if (!(queue!.ready > million / 2 && queue!.ready < million * 2))
        throw new Error(`${queue!.ready} are ready`)
    }
    took.sort((a, b) => a - b)
    return { p50: took[10]!, slowest: took.at(-1)! }
  }

function countsTrial(engine: 'postgres' | 'mariadb' | 'sqlite'): Trial {
  const shared = { unit: 'ms, 1 M ready', better: 'lower', peers: [] } as const
  return {
    name: `stats-${engine}`,
    open: groundOf(engine),
    rounds: 1,
    deadlineMs: 600_000,
    contestants: { signalbox: counted(engine) },
    cases: [
      { ...shared, name: `stats-${engine}`, figure: 'p50', goal: atMost(20) },
      { ...shared, name: `stats-${engine}-slowest`, figure: 'slowest', goal: atMost(40) },
    ],
  }
}

export const countTrials: readonly Trial[] = [
  countsTrial('postgres'),
  countsTrial('mariadb'),
  countsTrial('sqlite'),
]
