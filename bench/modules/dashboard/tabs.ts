/**
 * What ten open tabs on the overview cost a drain: a worker process works off a backlog on Postgres, while a server on the
 * same database serves a browser; against the same with the tabs closed. Readers have browsers of their own elsewhere;
 * this one has the processors and their caches in common with all else, and slows a drain by being there, whatever it
 * shows. So what counts is the processor time that goes into answering the tabs, in the server and behind its connections
 * to the database, as a part of all that the drain takes. How much slower the drain was by the clock, with the browser's
 * own work on the same processors, is printed.
 *
 * A machine's speed moves by more than tabs cost, from one minute to the next. So both are done in turns by the same
 * processes, a few seconds apart.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import type { Contestant, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { median } from '../../summary.ts'
import { groundOf } from '../jobs/ground.ts'
import { fill, Tally, untilEmpty } from '../jobs/lane.ts'
import { tuned } from '../jobs/lanes.ts'
import { createPlace } from '../jobs/place.ts'
import { signalboxLane } from '../jobs/signalbox.ts'
import { startServer } from '../server/running.ts'
import { figures, openTabs } from './browser.ts'
import { cpuMsOf, cpuMsOfFamily, postgresProcesses } from './cpu-time.ts'

const tabCount = 10
/** A worker that is still being compiled spends more on a job than ten tabs do, and not the same twice. */
const warmUp = 20_000
const restMs = 500
/** By this name the server's connections are known to the database. */
const serverName = 'watched'

/** What one drain took; times are of processors, in ms. */
interface Drained {
  readonly allMs: number
  /** Of the server and of the database on its behalf. */
  readonly serverMs: number
  readonly rate: number
}

interface Turn {
  readonly open: Drained
  readonly closed: Drained
}

const drainedInTurns: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'postgres')
  await using lane = await signalboxLane(tuned)(place.url)
  await fill(lane, warmUp)
  await workOff(lane, warmUp)
  await using server = await startServer({ kind: 'signalbox', database: named(place.url) })
  await using browser = await openTabs()
  const tabs: Page[] = []
  while (tabs.length < tabCount) tabs.push(await browser.open())
  const database = await postgresProcesses(place.url)
  const count = conditions.quick ? 50_000 : 200_000

  async function drained(address: string): Promise<Drained> {
    await fill(lane, count)
    await place.settleDown()
    for (const tab of tabs) await tab.goto(address)
    if (address !== blank) for (const tab of tabs) await tab.locator(figures).first().waitFor()
    await sleep(restMs)
    const spent = async () => {
      const serverMs = cpuMsOf(server.pid)
      return {
        allMs: serverMs + cpuMsOf(process.pid) + cpuMsOfFamily(database.postmaster),
        serverMs: serverMs + (await database.cpuMsFor(serverName)),
      }
    }
    const before = await spent()
    const ms = await workOff(lane, count)
    const after = await spent()
    return {
      allMs: after.allMs - before.allMs,
      serverMs: after.serverMs - before.serverMs,
      rate: (count / ms) * 1_000,
    }
  }

  const overview = `http://127.0.0.1:${server.port}`
  const turns: Turn[] = []
  while (turns.length < (conditions.quick ? 2 : 4)) {
    // Each goes first as often as the other, so that a growing table favours neither.
    if (turns.length % 2 === 0) turns.push({ open: await drained(overview), closed: await drained(blank) })
    else turns.push({ closed: await drained(blank), open: await drained(overview) })
  }
  const sum = (of: (turn: Turn) => number) => turns.reduce((total, turn) => total + of(turn), 0)
  const perJob = 1_000 / (turns.length * count)
  return {
    cost:
      (sum(({ open, closed }) => open.serverMs - closed.serverMs) / sum(({ closed }) => closed.allMs)) * 100,
    server: sum(({ open }) => open.serverMs) * perJob,
    serverAlone: sum(({ closed }) => closed.serverMs) * perJob,
    all: sum(({ closed }) => closed.allMs) * perJob,
    slowing: (1 - median(turns.map(({ open, closed }) => open.rate / closed.rate))) * 100,
  }
}

const blank = 'about:blank'

function named(url: string): string {
  const own = new URL(url)
  own.searchParams.set('application_name', serverName)
  return own.href
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

const shown = { peers: [], better: 'lower' } as const
const perJob = 'µs of processor time per job'

export const tabsTrial: Trial = {
  name: 'tabs',
  open: groundOf('postgres'),
  rounds: 3,
  contestants: { signalbox: drainedInTurns },
  cases: [
    {
      ...shown,
      name: 'tabs-cost',
      unit: `% more processor time per job for ${tabCount} open tabs, in the server and in the database for it`,
      figure: 'cost',
      goal: atMost(5),
    },
    {
      ...shown,
      name: 'tabs-server',
      unit: `${perJob} of the server, with the database’s for it, ${tabCount} tabs open`,
      figure: 'server',
      goal: printed,
    },
    {
      ...shown,
      name: 'tabs-server-alone',
      unit: `${perJob} of the server, with the database’s for it, tabs closed`,
      figure: 'serverAlone',
      goal: printed,
    },
    {
      ...shown,
      name: 'tabs-drain',
      unit: `${perJob} of worker, server and database, tabs closed`,
      figure: 'all',
      goal: printed,
    },
    {
      ...shown,
      name: 'tabs-slowing',
      unit: `% fewer jobs/s with ${tabCount} open tabs, the browser’s own work on the same processors included`,
      figure: 'slowing',
      goal: printed,
    },
  ],
}
