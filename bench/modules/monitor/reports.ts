/** Reports of 10,000 venues with 1 % changed and notified to one subscription: on SQLite alone, on Postgres against raw SQL. */
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atLeast, atLeastTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { Feed, reportAll, subscribeToAll } from './feed.ts'
import { RawReports } from './raw-reports.ts'

const venueCount = 10_000
const warmReports = 5

/** The first report, in which all is new, and the ones that warm up are not counted. */
function reports(engine: 'sqlite' | 'postgres'): Contestant {
  return async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using box = await open(place.url, { migrate: true })
    await subscribeToAll(box)
    const feed = new Feed('bench', venueCount)
    await reportAll(box, feed.next(), 0)
    await place.settleDown()
    return {
      rate: await rateOfReports(conditions.quick, () => {
        const report = feed.next()
        return () => reportAll(box, report, feed.changeCount)
      }),
    }
  }
}

const raw: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'postgres')
  await using reports = await RawReports.open(place.url, venueCount)
  await place.settleDown()
  return {
    rate: await rateOfReports(conditions.quick, () => {
      const batches = reports.prepare()
      return () => reports.write(batches)
    }),
  }
}

/** Venues a second. What is reported is made ready before the time runs. */
async function rateOfReports(quick: boolean, prepare: () => () => Promise<void>): Promise<number> {
  const timedReports = quick ? 3 : 10
  let ms = 0
  for (let nr = -warmReports; nr < timedReports; nr++) {
    const report = prepare()
    const startedAt = performance.now()
    await report()
    if (nr >= 0) ms += performance.now() - startedAt
  }
  return (timedReports * venueCount) / (ms / 1_000)
}

export const reportTrials: readonly Trial[] = [
  {
    name: 'report-sqlite',
    open: groundOf('sqlite'),
    contestants: { signalbox: reports('sqlite') },
    cases: [
      {
        name: 'report-sqlite',
        unit: 'venues/s, 1 % changed',
        better: 'higher',
        figure: 'rate',
        peers: [],
        goal: atLeast(20_000),
      },
    ],
  },
  {
    name: 'report-postgres',
    open: groundOf('postgres'),
    contestants: { signalbox: reports('postgres'), limit: raw },
    cases: [
      {
        name: 'report-postgres',
        unit: 'venues/s, 1 % changed',
        better: 'higher',
        figure: 'rate',
        peers: [],
        goal: atLeastTimes(0.5, 'limit', 'the raw queries'),
      },
    ],
  },
]
