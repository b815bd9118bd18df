/**
 * What a page holds that is left open on the overview of the demo, where something changes all the time: its heap after a
 * collection, when it has come to rest and a minute later (--full: an hour). The hour of samples that the charts show is
 * kept by design and comes in on top: about a hundred kilobytes.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CDPSession } from 'playwright-core'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { startDemo } from '../../../src/demo/index.ts'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf, groundUrl } from '../jobs/ground.ts'
import { printed } from '../jobs/printed.ts'
import { figures, openTabs } from './browser.ts'

const signalbox: Contestant = async (conditions) => {
  const { full = false } = conditions
  const path = join(groundUrl(conditions, 'sqlite'), 'demo.db')
  await using box = await open(`sqlite:${path}`, {
    migrate: true,
    allowPrivate: ['127.0.0.0/8'],
    retentionMs: '30m',
  })
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  await using demo = startDemo({ box, url })
  await using tabs = await openTabs()
  const page = await tabs.open()
  const answers = { count: 0 }
  page.on('requestfinished', () => {
    answers.count++
  })
  await page.goto(url)
  await page.locator(figures).first().waitFor()
  const session = await page.context().newCDPSession(page)
  await sleep(full ? 120_000 : 20_000)
  const before = await heapBytes(session)
  const answersBefore = answers.count
  const half = full ? 1_800_000 : 30_000
  await sleep(half)
  const halfway = await heapBytes(session)
  await sleep(half)
  const after = await heapBytes(session)
  if (answers.count - answersBefore < (full ? 600 : 10)) throw new Error('the page did not follow')
  return {
    growth: (after / before - 1) * 100,
    before: before / 1_000_000,
    halfway: halfway / 1_000_000,
    after: after / 1_000_000,
    answers: answers.count - answersBefore,
    faults: demo.faultCount,
  }
}

async function heapBytes(session: CDPSession): Promise<number> {
  // The second takes what the first one's finalisers let go.
  for (let times = 0; times < 2; times++) await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  return usedSize
}

const shown = { better: 'lower', peers: [] } as const

export const memoryTrial: Trial = {
  name: 'memory',
  open: groundOf('sqlite'),
  rounds: 1,
  deadlineMs: 4_500_000,
  contestants: { signalbox },
  cases: [
    {
      ...shown,
      name: 'memory-growth',
      unit: '% more heap after a minute of live updates (--full: an hour)',
      figure: 'growth',
      goal: atMost(10),
    },
    { ...shown, name: 'memory-before', unit: 'MB of heap at its start', figure: 'before', goal: printed },
    // A page that warms up has grown by then, one that leaks grows on.
    {
      ...shown,
      name: 'memory-halfway',
      unit: 'MB of heap half-way',
      figure: 'halfway',
      goal: printed,
    },
    { ...shown, name: 'memory-after', unit: 'MB of heap at its end', figure: 'after', goal: printed },
    {
      ...shown,
      name: 'memory-answers',
      unit: 'answers taken in meanwhile',
      figure: 'answers',
      goal: printed,
    },
    {
      ...shown,
      name: 'memory-faults',
      // On a machine that is busy with other things some of its calls come too late; the page has followed all the same.
      unit: 'faults of the demo meanwhile',
      figure: 'faults',
      goal: printed,
    },
  ],
}
