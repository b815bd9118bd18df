/**
 * Reporters on overlapping venues while rules change, senders that are killed with -9 and stopped, and a provider that
 * fails in every way. When it is calm again, people must know the truth, and have heard it in order.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from '../../../src/index.ts'
import { notifyQueue } from '../../../src/monitor/notification-queue.ts'
import type { Program } from '../../support/services/program.ts'
import { type Crew, createCrew } from '../crew.ts'
import { readEventLogs } from '../event-log.ts'
import type { Ground } from '../ground.ts'
import { createRandom } from '../random.ts'
import type { Counts } from '../stage.ts'
import {
  checkNotifying,
  type NotifyingEvidence,
  type NotifyingRule,
  type VenueEnd,
} from './notifying-checker.ts'
import {
  hallStates,
  type NotifyingEvent,
  type NotifyingProcessOptions,
  venueCounts,
} from './notifying-plan.ts'
import { type NotifyingProvider, startNotifyingProvider } from './notifying-provider.ts'

export interface NotifyingOptions {
  readonly seed: number
  readonly reporters: number
  /** How often a sender or a reporter is killed or stopped. */
  readonly hits: number
  /** The longest pause between two reports of a reporter. */
  readonly pauseMs: number
}

const script = join(import.meta.dirname, 'notifying-process.ts')
/** While messages come, there may be many of them still. */
const silenceMs = 20_000
const hallVenues = Array.from({ length: venueCounts.hall }, (_, index) => `v${index}`)

export async function notifyThroughKills(
  { url, folder }: Ground,
  { seed, reporters, hits: hitCount, pauseMs }: NotifyingOptions,
): Promise<Counts> {
  await using kept = new AsyncDisposableStack()
  const allowPrivate = ['127.0.0.0/8']
  const box = kept.use(await open(url as 'sqlite:', { namespace: 'notifying', migrate: true, allowPrivate }))
  const provider = kept.use(await startNotifyingProvider(createRandom(seed + 1)))
  // There are no subscriptions yet, so these states are the baseline for all.
  await reportHall(box, 'baseline', new Map(hallVenues.map((venueId) => [venueId, hallStates[0]])))
  const rules = await subscribeAll(box, provider)

  const crew = kept.use(createCrew())
  const shared = { url, folder, pauseMs, guest: provider.channel('guest') }
  const hits = await harm(crew, shared, { seed, reporters, hits: hitCount })
  provider.calm()
  await drain(box, crew, provider)
  const ends = await readEnds(box)
  // A message that died while no process reported is notified with the next report.
  await reportHall(
    box,
    'afterwards',
    new Map(ends.filter(isInHall).map(({ venueId, truth }) => [venueId, truth])),
  )
  await drain(box, crew, provider)
  await hits.leave()

  const events = readEventLogs<NotifyingEvent>(folder)
  const reports = events.filter((event) => event.type === 'reported')
  const { complaints, counts } = checkNotifying({
    rules,
    taken: provider.taken,
    notifications: await readNotifications(box),
    reported: reports
      .flatMap(({ source, changes }) => changes.map((change) => ({ source, ...change })))
      .filter(({ reason }) => reason === 'new' || reason === 'changed') as NotifyingEvidence['reported'],
    venues: ends,
  })
  const failures = [
    ...events.filter((event) => event.type === 'failed').map(({ error }) => error),
    ...reports.flatMap(({ failed }) => failed.map(({ error }) => `${error.code}: ${error.message}`)),
  ]
  const all = [...complaints, ...crew.accidents]
  if (all.length > 0)
    throw new Error(`${all.length} complaints, seed ${seed}:\n${all.slice(0, 20).join('\n')}`)
  // A store may be busy for a moment; one that mostly refuses has shown nothing.
  if (failures.length > reports.length / 20)
    throw new Error(`${failures.length} of ${reports.length} reports failed: ${failures[0]}`)
  const heldBack = reports
    .flatMap(({ suppressed }) => suppressed)
    .filter(({ reason }) => reason === 'notified_recently' || reason === 'pending').length
  return {
    reports: reports.length,
    failures: failures.length,
    'changes of rules': events.filter(({ type }) => type === 'rules').length,
    kills: hits.kills,
    stops: hits.stops,
    faults: provider.faults,
    ...counts,
    'held back': heldBack,
  }
}

async function subscribeAll(box: Box, provider: NotifyingProvider): Promise<readonly NotifyingRule[]> {
  const often = { retryInMs: 30, maxRetries: 100 }
  const seldom = { retryInMs: 30, maxRetries: 1 }
  const desk = await box.monitor.subscribe({
    name: 'desk',
    match: { source: 'gym' },
    windowMs: 0,
    notifyNew: true,
    channel: provider.channel('desk'),
    ...often,
  })
  const board = await box.monitor.subscribe({
    name: 'board',
    match: { source: 'hall' },
    channel: provider.channel('board', 'mortal'),
    ...seldom,
  })
  const keeper = await box.monitor.subscribe({
    name: 'keeper',
    match: { source: 'hall' },
    windowMs: 300,
    reconcile: true,
    channel: provider.channel('keeper', 'mortal'),
    ...seldom,
  })
  const rule = (
    { id, windowMs }: typeof desk,
    source: string,
    hears: NotifyingRule['hears'],
  ): NotifyingRule => ({
    subscriptionId: id,
    source,
    windowMs,
    hears,
  })
  return [rule(desk, 'gym', 'everything'), rule(board, 'hall', 'by window'), rule(keeper, 'hall', 'lastly')]
}

interface Hits {
  readonly kills: number
  readonly stops: number
  /** Two senders are left over and at work; they leave. */
  leave(): Promise<void>
}

async function harm(
  crew: Crew,
  shared: Pick<NotifyingProcessOptions, 'url' | 'folder' | 'pauseMs' | 'guest'>,
  { seed, reporters: count, hits }: Pick<NotifyingOptions, 'seed' | 'reporters' | 'hits'>,
): Promise<Hits> {
  const random = createRandom(seed)
  let started = 0
  const start = (role: NotifyingProcessOptions['role']) => {
    const name = `${role}${started++}`
    return crew.start(script, {
      ...shared,
      role,
      name,
      seed: seed * 1_000 + started,
    } satisfies NotifyingProcessOptions)
  }
  const reporters = Array.from({ length: count }, () => start('reporter'))
  const senders = [start('sender'), start('sender')]
  await Promise.all([...reporters, ...senders])
  let [kills, stops] = [0, 0]
  while (kills + stops < hits) {
    await sleep(random.whole(200, 1_000))
    const role = random() < 0.2 ? 'reporter' : 'sender'
    const members = role === 'reporter' ? reporters : senders
    const victim = await members.shift()!
    if ((kills + stops) % 3 < 2) {
      await crew.kill(victim)
      kills++
    } else {
      await crew.stop(victim)
      stops++
    }
    const next = start(role)
    // Its waiter gets the error; no other code waits for it.
    next.catch(() => undefined)
    members.push(next)
  }
  const leave = async (members: readonly Promise<Program>[]) => {
    await Promise.all(members.map(async (member) => crew.stop(await member)))
  }
  await leave(reporters)
  await Promise.all(senders)
  return { kills, stops, leave: () => leave(senders) }
}

/** Until no message is in delivery and no check is pending. */
async function drain(box: Box, crew: Crew, { taken }: NotifyingProvider): Promise<void> {
  let [heard, heardAt] = [taken.length, Date.now()]
  for (; ; await sleep(50)) {
    if (taken.length > heard) [heard, heardAt] = [taken.length, Date.now()]
    const statuses = ['pending', 'sending'] as const
    const pages = await Promise.all(statuses.map((status) => box.monitor.notifications({ status, limit: 1 })))
    const open = pages.flatMap(({ items }) => items)
    const lines = (await box.backend.jobs.stats()).filter(({ queue }) => queue === notifyQueue)
    const jobs = lines.reduce((sum, line) => sum + line.scheduled + line.ready + line.running, 0)
    if (open.length === 0 && jobs === 0) return
    if (crew.accidents.length > 0) throw new Error(crew.accidents.join('\n'))
    if (Date.now() > heardAt + silenceMs)
      throw new Error(
        `nothing was notified for ${silenceMs} ms, and ${jobs} jobs wait: ${JSON.stringify(open)}`,
      )
  }
}

async function reportHall(box: Box, taskId: string, states: ReadonlyMap<string, string>): Promise<void> {
  const venues = [...states].map(([venueId, state]) => ({ venueId, state }))
  await box.monitor.report({ taskId, source: 'hall', timeSlot: '18:00', observedAt: Date.now(), venues })
}

function isInHall({ source }: VenueEnd): boolean {
  return source === 'hall'
}

async function readEnds(box: Box): Promise<readonly VenueEnd[]> {
  const { items } = await box.monitor.subjects({ limit: 500 })
  return items.map(({ source, venueId, state, changedAt }) => {
    const baseline = source === 'hall' ? hallStates[0] : null
    return { source, venueId: venueId!, baseline, truth: state as string, changedAt }
  })
}

async function readNotifications(box: Box): Promise<NotifyingEvidence['notifications']> {
  const records: NotifyingEvidence['notifications'][number][] = []
  for (let cursor: string | null = null; ; ) {
    const page: Awaited<ReturnType<Box['monitor']['notifications']>> = await box.monitor.notifications({
      limit: 500,
      cursor,
    })
    for (const { venueId, from, to, ...one } of page.items)
      records.push({ ...one, venueId: venueId!, from: from as string | null, to: to as string })
    cursor = page.cursor
    if (cursor === null) return records
  }
}
