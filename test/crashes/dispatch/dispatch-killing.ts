/**
 * Two servers share a fleet of nodes over one store and a Redis, tasks come to both, and servers, nodes and Redis are
 * killed with -9 and started again. When it is calm again, every task has ended once, as its node said; no node ever had
 * more than its slots; and all slots are free.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from '../../../src/index.ts'
import { monotonicMs, readEventLogs } from '../event-log.ts'
import type { Ground } from '../ground.ts'
import { createRandom, type Random } from '../random.ts'
import type { Counts } from '../stage.ts'
import { againMs, checkDispatch } from './dispatch-checker.ts'
import { type DispatchFleet, startDispatchFleet } from './dispatch-fleet.ts'
import { createDispatchLoad, type DispatchLoad, seenTask } from './dispatch-load.ts'
import { dispatchTimes, type NodeEvent, type RestingNode, type SeenTask } from './dispatch-plan.ts'

export interface DispatchKillingOptions {
  readonly seed: number
  readonly nodes: number
  readonly kills: number
  /** Submits unanswered tasks again, with their keys; that takes as long as a dead server holds a key. */
  readonly repeats: boolean
  /** Redis comes back with nothing, also without the keys of submits: then nothing may be repeated. */
  readonly forgets: boolean
}

/** From the last blow to the last end: leases run out, and then there is a queue. Ten times what it takes. */
const drainMs = 10 * (dispatchTimes.leaseMs + dispatchTimes.serverLeaseMs + 2_000)
const restMs = 30_000

export async function killDispatch(
  { url, folder, engine }: Ground,
  { seed, nodes, kills, repeats, forgets }: DispatchKillingOptions,
): Promise<Counts> {
  await using kept = new AsyncDisposableStack()
  const box = kept.use(await open(url as 'sqlite:', { migrate: true }))
  const random = createRandom(seed)
  const fleet = kept.use(await startDispatchFleet({ url, folder, nodeCount: nodes, forgets, random }))
  const load = kept.use(createDispatchLoad(fleet.urls, createRandom(seed + 1)))
  const stage: Stage = { box, fleet, load, folder }
  await rested(stage)

  const slotCount = fleet.nodes.reduce((sum, { slots }) => sum + slots.asr! + slots.nmt!, 0)
  const mayAdd = async () => (await underWay(box)) < slotCount
  // A store that does not answer now accepts no task.
  load.begin(() => mayAdd().catch(() => false))
  await harm(fleet, random, kills)
  await load.stop()
  const unanswered = load.submits.filter(({ taskId }) => taskId === undefined).length
  if (repeats) await load.again()
  await drained(stage)
  await loseOne(stage, random)
  const emptied = await rested(stage)
  const filled = await fill(stage)
  const resting = [...emptied, ...(await rested(stage))]
  await fleet.leave()

  const last = await allTasks(box)
  const { complaints, counts } = checkDispatch({
    nodes: readEventLogs<NodeEvent>(folder),
    blows: fleet.blows,
    submits: load.submits,
    seen: load.seen,
    last,
    resting,
    filled,
    clockMs: monotonicMs() - Date.now(),
  })
  const all = [...complaints, ...fleet.accidents]
  if (all.length > 0)
    throw new Error(`${all.length} complaints on ${engine}, seed ${seed}:\n${all.slice(0, 20).join('\n')}`)
  const killed = (of: string) => fleet.blows.filter(({ kind }) => kind === of).length
  const ended = (of: string) => last.filter(({ status }) => status === of).length
  return {
    'server kills': killed('server'),
    'node kills': killed('node'),
    'Redis kills': killed('redis'),
    ...counts,
    completed: ended('completed'),
    failed: ended('failed'),
    cancelled: ended('cancelled'),
    unanswered,
    looks: load.seen.length,
  }
}

interface Stage {
  readonly box: Box
  readonly fleet: DispatchFleet
  readonly load: DispatchLoad
  readonly folder: string
}

/** Kills overlap with recoveries, but no process is killed again before it is back. */
async function harm(fleet: DispatchFleet, random: Random, kills: number): Promise<void> {
  const away = new Map<string, Promise<void>>()
  const hit = async (name: string, blow: () => Promise<void>) => {
    await away.get(name)
    const back = blow()
    // The caller awaits it later; until then a rejection must not be unhandled.
    back.catch(() => undefined)
    away.set(name, back)
  }
  // Each kind has its turn; which of them, and when, is drawn.
  const kinds = ['server', 'node', 'redis', 'node'] as const
  for (let kill = 0; kill < kills; kill++) {
    await sleep(random.whole(100, 900))
    const awayMs = random.whole(0, 600)
    const server = random.whole(0, 1)
    const node = random.whole(0, fleet.nodes.length - 1)
    const kind = kinds[kill % kinds.length]!
    if (kind === 'server') await hit(`server ${server}`, () => fleet.killServer(server, awayMs))
    else if (kind === 'node') await hit(`node ${node}`, () => fleet.killNode(node, awayMs))
    else await hit('redis', () => fleet.killRedis(awayMs))
  }
  await Promise.all(away.values())
}

/** In the quiet phase a node is killed while its tasks run: they run elsewhere, because there are free slots. */
async function loseOne(stage: Stage, random: Random): Promise<void> {
  const { fleet, load, folder } = stage
  const release = 'lost.release'
  const count = fleet.nodes.length
  for (let task = 0; task < count; task++)
    await load.surely(task % 2, { wish: 'holding', uses: random.pick([{ asr: 1 }, { nmt: 1 }]), release })
  await until('tasks that are held run', stage, async () => running(stage).length >= count)
  const { instance } = random.pick(running(stage))
  await fleet.killNode(
    fleet.nodes.findIndex((node) => node.instance === instance),
    0,
  )
  // Not before they run again: what ends at once shows nothing. If they never do, the judgement says so.
  for (const deadline = Date.now() + 2 * againMs; running(stage).length < count && Date.now() < deadline; )
    await sleep(50)
  writeFileSync(join(folder, release), '')
  await drained(stage)
}

/** As many tasks as there are slots of one service: all of them must run at once. */
async function fill(stage: Stage): Promise<{ slots: number; running: number }> {
  const { fleet, load, folder } = stage
  const release = 'filled.release'
  const slots = fleet.nodes.reduce((sum, node) => sum + node.slots.asr!, 0)
  for (let task = 0; task < slots; task++)
    await load.surely(task % 2, { wish: 'holding', uses: { asr: 1 }, release })
  for (const deadline = Date.now() + restMs; running(stage).length < slots && Date.now() < deadline; )
    await sleep(50)
  const filled = { slots, running: running(stage).length }
  writeFileSync(join(folder, release), '')
  await drained(stage)
  return filled
}

/** What the nodes that live have begun and not ended. */
function running({ fleet, folder }: Stage): readonly Extract<NodeEvent, { type: 'begin' }>[] {
  const events = readEventLogs<NodeEvent>(folder)
  const living = new Set(fleet.nodes.map(({ instance }) => instance))
  const ended = new Set(
    events
      .filter((event) => event.type === 'end')
      .map((end) => `${end.taskId}#${end.attempt} ${end.instance}`),
  )
  return events
    .filter((event) => event.type === 'begin')
    .filter((begin) => living.has(begin.instance))
    .filter((begin) => !ended.has(`${begin.taskId}#${begin.attempt} ${begin.instance}`))
}

async function underWay(box: Box): Promise<number> {
  const lines = await box.backend.jobs.stats()
  return lines.reduce((sum, line) => sum + line.scheduled + line.ready + line.running, 0)
}

async function drained(stage: Stage): Promise<void> {
  await until('all tasks have ended', stage, async () => (await underWay(stage.box)) === 0)
}

async function until(what: string, { fleet, box }: Stage, isSo: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + drainMs; !(await isSo()); await sleep(50)) {
    if (fleet.accidents.length > 0) throw new Error(fleet.accidents.join('\n'))
    if (Date.now() > deadline) {
      const left = (await allTasks(box)).filter(({ finishedAt }) => finishedAt === null)
      throw new Error(`not in ${drainMs} ms: ${what}; ${JSON.stringify(left.slice(0, 5))}`)
    }
  }
}

/** Both servers' word about every node, as soon as nothing is taken and all are ready, or when that takes too long. */
async function rested({ load, fleet }: Stage): Promise<readonly RestingNode[]> {
  for (const deadline = Date.now() + restMs; ; await sleep(50)) {
    const resting = await load.resting(fleet.nodes.map(({ nodeId }) => nodeId))
    const isSo = resting.every(
      ({ status, used }) => status === 'ready' && Object.values(used).every((n) => n === 0),
    )
    if (isSo || Date.now() > deadline) return resting
  }
}

async function allTasks(box: Box): Promise<readonly SeenTask[]> {
  const tasks: SeenTask[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await box.dispatch.tasks({ limit: 500, ...(cursor === undefined ? {} : { cursor }) })
    tasks.push(...page.items.map(seenTask))
    if (page.cursor === null) return tasks
    cursor = page.cursor
  }
}
