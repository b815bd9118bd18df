/** A hundred acks of one claim, each a separate call and all at once, as an HTTP client with a batch sends them. */
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atMost, type Goal } from '../../goal.ts'
import { groundOf } from './ground.ts'
import { createPlace } from './place.ts'

const acks = 100

const acked =
  (engine: 'postgres' | 'mariadb' | 'sqlite'): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using box = await open(place.url, { migrate: true })
    const rounds = conditions.quick ? 20 : 60
    const warmUps = 5
    const took: number[] = []
    for (let round = 0; round < rounds + warmUps; round++) {
      await box.jobs.addMany(
        Array.from({ length: acks }, (_, number) => ({ kind: 'noop', payload: { number } })),
      )
      const claimed = await box.jobs.claim({ workerId: 'bench', limit: acks })
      if (claimed.length !== acks) throw new Error(`${claimed.length} of ${acks} jobs were claimed`)
      const startedAt = performance.now()
      await Promise.all(claimed.map((job) => box.jobs.ack(job)))
      if (round >= warmUps) took.push(performance.now() - startedAt)
    }
    took.sort((a, b) => a - b)
    return { p50: took[Math.floor(took.length / 2)]! }
  }

function acksTrial(engine: 'postgres' | 'mariadb' | 'sqlite', goal: Goal): Trial {
  const name = `acks-${engine}`
  return {
    name,
    open: groundOf(engine),
    contestants: { signalbox: acked(engine) },
    cases: [{ name, unit: 'ms for 100 acks', better: 'lower', figure: 'p50', peers: [], goal }],
  }
}

export const ackTrials: readonly Trial[] = [
  acksTrial('postgres', atMost(10)),
  acksTrial('mariadb', atMost(30)),
  acksTrial('sqlite', atMost(10)),
]
