/**
 * Whether the cost of a venue depends on how many there are: 1,000 are reported, or 10,000, or 50,000 in five reports,
 * each in a store of their own. All live in one process and take turns: the figures are ratios of medians that saw the
 * same machine.
 */
import { type Box, open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { median } from '../../summary.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { Feed, reportAll, subscribeToAll } from './feed.ts'

const mostVenues = 10_000

/** A store that knows this number of venues. */
interface Watched {
  readonly box: Box
  readonly feeds: readonly Feed[]
  readonly venueCount: number
  readonly costs: number[]
}

const signalbox: Contestant = async (conditions) => {
  const turns = conditions.quick ? 3 : 8
  await using kept = new AsyncDisposableStack()
  const open = async (venueCount: number) => kept.use(await createWatched(conditions, venueCount))
  const few = await open(1_000)
  const many = await open(10_000)
  const most = await open(50_000)
  for (let turn = -1; turn < turns; turn++) {
    for (const watched of [few, many, most]) {
      // As many venues each time, as far as that goes, so that a pause of the machine weighs the same.
      const times = Math.max(1, mostVenues / watched.venueCount)
      const cost = await costOf(watched, times)
      if (turn >= 0) watched.costs.push(cost)
    }
  }
  return {
    many: median(many.costs) / median(few.costs),
    most: median(most.costs) / median(few.costs),
    microseconds: median(most.costs),
  }
}

async function createWatched(
  conditions: Parameters<Contestant>[0],
  venueCount: number,
): Promise<Watched & AsyncDisposable> {
  const place = await createPlace(conditions, 'sqlite')
  const box = await open(place.url)
  await subscribeToAll(box)
  const feedCount = Math.ceil(venueCount / mostVenues)
  const feeds = Array.from({ length: feedCount }, (_, nr) => new Feed(`bench-${nr}`, venueCount / feedCount))
  for (const feed of feeds) await reportAll(box, feed.next(), 0)
  return { box, feeds, venueCount, costs: [], [Symbol.asyncDispose]: () => box.close() }
}

/** Microseconds a venue, when all of them are reported `times` times. */
async function costOf({ box, feeds, venueCount }: Watched, times: number): Promise<number> {
  let ms = 0
  for (let time = 0; time < times; time++) {
    for (const feed of feeds) {
      const report = feed.next()
      const startedAt = performance.now()
      await reportAll(box, report, feed.changeCount)
      ms += performance.now() - startedAt
    }
  }
  return (ms * 1_000) / (venueCount * times)
}

const growth = { better: 'lower', peers: [] } as const

export const growthTrial: Trial = {
  name: 'report-growth',
  open: groundOf('sqlite'),
  contestants: { signalbox },
  cases: [
    {
      ...growth,
      name: 'report-growth-10k',
      unit: 'x a venue, 1 k to 10 k',
      figure: 'many',
      goal: atMost(1.5),
    },
    {
      ...growth,
      name: 'report-growth-50k',
      unit: 'x a venue, 1 k to 50 k',
      figure: 'most',
      goal: atMost(1.5),
    },
    { ...growth, name: 'report-cost-50k', unit: 'us a venue', figure: 'microseconds', goal: printed },
  ],
}
