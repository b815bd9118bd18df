/**
 * What a page holds that is left open on the overview of the demo, where something changes all the time: after a
 * collection, when it has come to rest and a minute later (--full: an hour). Its charts show the last hour, so it is given
 * one at its first look, as by a server that has been there for longer: from then on the old goes as the new comes.
 *
 * What the browser compiled of its scripts is told apart: it comes to a megabyte within the hour, however little the page
 * holds, because V8 compiles again and better whatever runs often. Of the page's elements there are to be no more either.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CDPSession, Route } from 'playwright-core'
import { open } from 'signalbox'
import type { WireOverview } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { startDemo } from '../../../src/demo/index.ts'
import type { Contestant, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { groundOf, groundUrl } from '../jobs/ground.ts'
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
  await page.route('**/v1/overview?*', withAnHour)
  await page.goto(url)
  await page.locator(figures).first().waitFor()
  const session = await page.context().newCDPSession(page)
  await sleep(full ? 120_000 : 20_000)
  const before = await holdings(session)
  const answersBefore = answers.count
  const half = full ? 1_800_000 : 30_000
  await sleep(half)
  const halfway = await holdings(session)
  await sleep(half)
  const after = await holdings(session)
  // One that is under way when the page closes would end the process, and an hour's figures with it.
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  if (answers.count - answersBefore < (full ? 600 : 10)) throw new Error('the page did not follow')
  return {
    growth: (after.held / before.held - 1) * 100,
    elements: (after.elements / before.elements - 1) * 100,
    before: before.held,
    halfway: halfway.held,
    after: after.held,
    codeBefore: before.code,
    codeAfter: after.code,
    answers: answers.count - answersBefore,
    faults: demo.faultCount,
  }
}

/** Answers as the server does, with the hour before in it. */
async function withAnHour(route: Route): Promise<void> {
  const response = await route.fetch()
  const { history, ...overview } = (await response.json()) as WireOverview
  const { stepMs, samples } = history
  const since = history.since - hourMs
  const isFirst = !new URL(route.request().url()).searchParams.has('since')
  const earlier = isFirst && samples[0] !== undefined ? hourBefore(samples[0], stepMs) : []
  await route.fulfill({
    response,
    json: { ...overview, history: { ...history, since, samples: [...earlier, ...samples] } },
  })
}

const hourMs = 3_600_000

function hourBefore(first: Sample, stepMs: number): Sample[] {
  const count = hourMs / stepMs
  return Array.from({ length: count }, (_, nth) => ({
    ...first,
    at: first.at - (count - nth) * stepMs,
    added: nth % 50,
    completed: nth % 40,
    // No whole numbers, as they are measured.
    ...{ waitP50Ms: nth / 100, waitP99Ms: nth / 10, runP50Ms: nth / 99, runP99Ms: nth / 9 },
    ...{ ready: nth % 30, running: nth % 10 },
  }))
}

type Sample = WireOverview['history']['samples'][number]

/** In megabytes, but for the number of elements. */
interface Holdings {
  readonly held: number
  readonly code: number
  readonly elements: number
}

async function holdings(session: CDPSession): Promise<Holdings> {
  // The second takes what the first one's finalisers let go.
  for (let times = 0; times < 2; times++) await session.send('HeapProfiler.collectGarbage')
  const { nodes } = await session.send('Memory.getDOMCounters')
  const chunks: string[] = []
  const take = ({ chunk }: { chunk: string }) => void chunks.push(chunk)
  session.on('HeapProfiler.addHeapSnapshotChunk', take)
  await session.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false })
  session.off('HeapProfiler.addHeapSnapshotChunk', take)
  return { ...weigh(JSON.parse(chunks.join('')) as Snapshot), elements: nodes }
}

/** The part of a heap snapshot that is read here: every node is a run of numbers, one for each field. */
interface Snapshot {
  readonly snapshot: {
    readonly meta: {
      readonly node_fields: readonly string[]
      readonly node_types: readonly [readonly string[]]
    }
  }
  readonly nodes: readonly number[]
}

function weigh({ snapshot: { meta }, nodes }: Snapshot): Pick<Holdings, 'held' | 'code'> {
  const { node_fields: fields, node_types: types } = meta
  const [type, size] = [fields.indexOf('type'), fields.indexOf('self_size')]
  let [held, code] = [0, 0]
  for (let at = 0; at < nodes.length; at += fields.length) {
    const name = types[0][nodes[at + type]!]
    const megabytes = nodes[at + size]! / 1_000_000
    if (name === 'code') code += megabytes
    // Native memory is the browser's, such as the responses it keeps for its developer tools.
    else if (name !== 'native') held += megabytes
  }
  return { held, code }
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
      unit: '% more held after a minute of live updates (--full: an hour)',
      figure: 'growth',
      goal: atMost(10),
    },
    {
      ...shown,
      name: 'memory-elements',
      unit: '% more elements then',
      figure: 'elements',
      goal: atMost(10),
    },
    { ...shown, name: 'memory-before', unit: 'MB held at its start', figure: 'before', goal: printed },
    // A page that warms up has grown by then, one that leaks grows on.
    {
      ...shown,
      name: 'memory-halfway',
      unit: 'MB held half-way',
      figure: 'halfway',
      goal: printed,
    },
    { ...shown, name: 'memory-after', unit: 'MB held at its end', figure: 'after', goal: printed },
    {
      ...shown,
      name: 'memory-code-before',
      unit: 'MB compiled at its start',
      figure: 'codeBefore',
      goal: printed,
    },
    {
      ...shown,
      name: 'memory-code-after',
      unit: 'MB compiled at its end',
      figure: 'codeAfter',
      goal: printed,
    },
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
      // On a busy machine some calls of the demo come too late; the page has followed nevertheless.
      unit: 'faults of the demo meanwhile',
      figure: 'faults',
      goal: printed,
    },
  ],
}
