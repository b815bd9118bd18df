/**
 * The memory of one worker process with 10,000 jobs in flight: the largest resident set seen from the worker's start
 * until its leases have been renewed a few times, without any collection forced.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from './ground.ts'
import { createPlace } from './place.ts'

const inFlight = 10_000

const signalbox: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'postgres')
  await using box = await open(place.url, { migrate: true })
  for (let left = inFlight; left > 0; left -= 1_000) {
    await box.jobs.addMany(
      Array.from({ length: 1_000 }, (_, number) => ({
        kind: 'wait',
        payload: { number, note: 'x'.repeat(100) },
      })),
    )
  }

  let begun = 0
  let ended = 0
  const all = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    concurrency: inFlight,
    leaseMs: 3_000,
    handlers: {
      async wait() {
        if (++begun === inFlight) all.resolve()
        await gate.promise
        ended++
      },
    },
  })
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 10)
  await worker.start()
  await all.promise
  await sleep(conditions.quick ? 1_500 : 5_000)
  clearInterval(timer)
  gate.resolve()
  await worker.stop()
  if (begun !== inFlight || ended !== inFlight)
    throw new Error(`${begun} begun, ${ended} ended of ${inFlight}.`)
  return { megabytes: peak / 2 ** 20 }
}

export const inFlightTrial: Trial = {
  name: 'in-flight-memory',
  open: groundOf('postgres'),
  contestants: { signalbox },
  cases: [
    {
      name: 'in-flight-memory',
      unit: 'MB with 10 k in flight',
      better: 'lower',
      figure: 'megabytes',
      peers: [],
      goal: atMost(300),
    },
  ],
}
