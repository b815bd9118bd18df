/**
 * What ten open tabs on the overview cost a drain: a worker process works off a backlog on Postgres, while a server on the
 * same database serves a browser on the same machine; against the same with no tab open. The browser's own work is in
 * it, which a real reader does elsewhere.
 */
import type { Contestant, Trial } from '../../case.ts'
import type { Goal } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { fill, Tally, untilEmpty } from '../jobs/lane.ts'
import { tuned } from '../jobs/lanes.ts'
import { createPlace } from '../jobs/place.ts'
import { signalboxLane } from '../jobs/signalbox.ts'
import { startServer } from '../server/running.ts'
import { figures, openTabs } from './browser.ts'

const drained =
  (tabCount: number): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, 'postgres')
    await using lane = await signalboxLane(tuned)(place.url)
    const warmUp = 2_000
    const count = conditions.quick ? 40_000 : 150_000
    await fill(lane, warmUp)
    await workOff(lane, warmUp)
    await fill(lane, count)
    await place.settleDown()
    await using server = await startServer({ kind: 'signalbox', database: place.url })
    await using tabs = await openTabs()
    for (let tab = 0; tab < tabCount; tab++) {
      const page = await tabs.open()
      await page.goto(`http://127.0.0.1:${server.port}`)
      await page.locator(figures).first().waitFor()
    }
    return { rate: (count / (await workOff(lane, count))) * 1_000 }
  }

async function workOff(
  lane: Awaited<ReturnType<ReturnType<typeof signalboxLane>>>,
  count: number,
): Promise<number> {
  const tally = new Tally(count)
  const startedAt = performance.now()
  const worker = await lane.work(tally.handle, tally.fail)
  await tally.done
  await untilEmpty(lane)
  const ms = performance.now() - startedAt
  await worker.stop()
  return ms
}

const most = 0.05
const slowed: Goal = {
  text: `at most ${most * 100} % below none open (limit)`,
  holds: ({ signalbox, limit }) => limit !== undefined && signalbox >= (1 - most) * limit,
}

export const tabsTrial: Trial = {
  name: 'tabs',
  open: groundOf('postgres'),
  contestants: { signalbox: drained(10), limit: drained(0) },
  cases: [
    {
      name: 'tabs',
      unit: 'jobs/s drained with 10 tabs open',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: slowed,
    },
  ],
}
