/**
 * What ten open tabs on the overview cost a drain: a worker process works off a backlog on Postgres, while a server on the
 * same database serves a browser; against the same with no tab open. Readers have browsers of their own elsewhere, and this
 * one has the machine's processors in common with all else: so what is compared is not the time that passes but the
 * processors' time, of worker, server and database together, for each job. The rate is printed, too, with the browser's
 * work in it.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atMostTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { fill, Tally, untilEmpty } from '../jobs/lane.ts'
import { tuned } from '../jobs/lanes.ts'
import { createPlace } from '../jobs/place.ts'
import { printed } from '../jobs/printed.ts'
import { signalboxLane } from '../jobs/signalbox.ts'
import { startServer } from '../server/running.ts'
import { figures, openTabs } from './browser.ts'
import { cpuMsOf, cpuMsOfFamily, postmasterOf } from './cputime.ts'

const drained =
  (tabCount: number): Contestant =>
  async (conditions) => {
    await using place = await createPlace(conditions, 'postgres')
    await using lane = await signalboxLane(tuned)(place.url)
    const warmUp = 2_000
    const count = conditions.quick ? 30_000 : 60_000
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
    const postmaster = await postmasterOf(place.url)
    const spentMs = () => cpuMsOf(process.pid) + cpuMsOf(server.pid) + cpuMsOfFamily(postmaster)
    const before = spentMs()
    const ms = await workOff(lane, count)
    return { cpu: ((spentMs() - before) / count) * 1_000, rate: (count / ms) * 1_000 }
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

const shown = { peers: [] } as const

export const tabsTrial: Trial = {
  name: 'tabs',
  open: groundOf('postgres'),
  rounds: 3,
  contestants: { signalbox: drained(10), limit: drained(0) },
  cases: [
    {
      ...shown,
      name: 'tabs-cpu',
      unit: 'µs of processor time per job (worker, server, database) with 10 tabs open; limit: none open',
      better: 'lower',
      figure: 'cpu',
      goal: atMostTimes(1.05, 'limit'),
    },
    {
      ...shown,
      name: 'tabs-rate',
      unit: 'jobs/s drained with 10 tabs open, the browser’s own work included; limit: none open',
      better: 'higher',
      figure: 'rate',
      goal: printed,
    },
  ],
}
