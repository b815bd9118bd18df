/**
 * What a report of 10,000 venues adds to the process that makes it: the largest resident set it ever had, less what it
 * had just before. All venues are new in the first report and known in the second; the larger need counts. The venues
 * themselves are the caller's, and are there before.
 */
import { open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { Feed, reportAll, subscribeToAll } from './feed.ts'

const venueCount = 10_000

function memory(engine: 'sqlite' | 'postgres'): Contestant {
  return async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using box = await open(place.url, { migrate: true })
    await subscribeToAll(box)
    const feed = new Feed('bench', venueCount)
    const reports = [feed.next(), feed.next()]
    globalThis.gc!()
    const before = process.memoryUsage.rss()
    await reportAll(box, reports[0]!, 0)
    await reportAll(box, reports[1]!, feed.changeCount)
    // In kilobytes, and since the process began.
    const peak = process.resourceUsage().maxRSS * 1_024
    return { megabytes: (peak - before) / 1_048_576 }
  }
}

function trial(engine: 'sqlite' | 'postgres'): Trial {
  return {
    name: `report-memory-${engine}`,
    open: groundOf(engine),
    contestants: { signalbox: memory(engine) },
    cases: [
      {
        name: `report-memory-${engine}`,
        unit: 'MB more, 10 k venues',
        better: 'lower',
        figure: 'megabytes',
        peers: [],
        goal: atMost(200),
      },
    ],
  }
}

export const memoryTrials: readonly Trial[] = [trial('sqlite'), trial('postgres')]
