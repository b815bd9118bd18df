import { showCount } from '../../core/job-words.ts'
import type { Task } from '../../dispatch/index.ts'
import type { WireOverview } from '../../http/client/index.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { FleetWorker } from '../../jobs/index.ts'
import type { LockSummary } from '../../locks/index.ts'
import { escapeText, showSpan } from '../print.ts'
import { type Act, columnsOf, lookOf, maxRows, type Pane, type PaneName, type Row } from './pane.ts'

type QueueLine = WireOverview['queues'][number]

const queues: Pane = {
  name: 'queues',
  keys: ['1'],
  columns: columnsOf(
    'QUEUE',
    '>READY',
    '>SCHEDULED',
    '>WAITING',
    '>RUNNING',
    '>DEAD',
    '>OLDEST',
    '>IN/OUT',
    'STATE',
  ),
  empty: 'No queue has open jobs.',
  async look(box) {
    const [lines, rates] = await Promise.all([box.jobs.stats(), queueRates(box)])
    const now = Date.now()
    const sorted = lines.toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
    const raw = lines.map((line) => ({ ...line, ...rates?.get(line.queue) }))
    return lookOf(raw, sorted, (line) => queueRow(line, rates && (rates.get(line.queue) ?? noRate), now))
  },
}

/** The rate of a queue without counts. */
const noRate: QueueRate = { addedPerSecond: 0, endedPerSecond: 0 }

function queueRow(line: QueueLine, rate: QueueRate | undefined, now: number): Row {
  const { queue, ready, scheduled, waiting, running, dead, oldestReadyAt, paused, limits } = line
  const name = escapeText(queue)
  return {
    id: queue,
    cells: [
      name,
      ...[ready, scheduled, waiting, running, dead].map((count) => showCount(line, count)),
      oldestReadyAt === null ? '-' : showSpan(Math.max(0, now - oldestReadyAt)),
      rate === undefined ? '-' : `${showRate(rate.addedPerSecond)}/${showRate(rate.endedPerSecond)}`,
      [...(paused ? ['paused'] : []), ...(limits === null ? [] : ['limited'])].join(', '),
    ],
    isAlert: dead > 0 || paused,
    acts: {
      P: {
        question: paused ? `Resume ${name}?` : `Pause ${name}?`,
        async perform(box) {
          await (paused ? box.jobs.resume(queue) : box.jobs.pause(queue))
          return `${paused ? 'resumed' : 'paused'} ${name}`
        },
      },
      ...(dead === 0
        ? {}
        : {
            R: {
              question: `Retry the dead jobs of ${name} (${showCount(line, dead)})?`,
              async perform(box) {
                const { retried } = await box.jobs.retryDead({ queue })
                return `retried ${retried} of ${name}`
              },
            },
          }),
    },
  }
}

/** How fast a queue fills and empties, by all processes on the store. */
interface QueueRate {
  readonly addedPerSecond: number
  /** Attempts that ended, with any outcome. */
  readonly endedPerSecond: number
}

const spanMs = 120_000

/** The rates of the last two to three minutes; undefined if the server cannot give them, such as an older version. */
export async function queueRates(
  box: Pick<Box | RemoteBox, 'metrics'>,
): Promise<ReadonlyMap<string, QueueRate> | undefined> {
  try {
    const to = Date.now()
    const { items, from, now } = await box.metrics.series({ from: to - spanMs, by: 'queue' })
    const seconds = Math.max(1, (now - from) / 1_000)
    return new Map(
      items.flatMap(({ queue, total: { added, completed, failed, dead } }) => {
        const ended = completed + failed + dead
        const rate = { addedPerSecond: added / seconds, endedPerSecond: ended / seconds }
        return queue === null ? [] : [[queue, rate] as const]
      }),
    )
  } catch {
    return undefined
  }
}

const locks: Pane = {
  name: 'locks',
  keys: ['2', 'l'],
  columns: columnsOf('OPERATION', 'RESOURCE', 'HOLDER', '>FOR', '>LEASE LEFT', '>WAITING'),
  empty: 'No lock is held, and none is waited for.',
  async look(box) {
    const { items, cursor } = await box.locks.list({ limit: maxRows })
    const now = Date.now()
    const longest = items.toSorted((a, b) => b.waiterCount - a.waiterCount)
    return { ...lookOf(items, longest, (line) => lockRow(line, now)), isCut: cursor !== null }
  },
}

function lockRow({ operation, resource, holder, waiterCount }: LockSummary, now: number): Row {
  const key = `${escapeText(operation)} ${escapeText(resource)}`
  return {
    id: JSON.stringify([operation, resource]),
    cells: [
      ...[operation, resource, holder?.node ?? '-'].map(escapeText),
      holder === null ? '-' : showSpan(now - holder.since),
      holder === null ? '-' : showSpan(Math.max(0, holder.expiresAt - now)),
      `${waiterCount}`,
    ],
    isAlert: false,
    acts:
      holder === null
        ? {}
        : {
            E: {
              question: `Evict ${escapeText(holder.node)} from ${key}? Its turn ends as a failure.`,
              async perform(box) {
                const { node, requestId } = holder
                await box.locks.evict({ operation, resource, node, requestId })
                return `evicted ${escapeText(node)} from ${key}`
              },
            },
          },
  }
}

type NodeLine = ReturnType<Box['dispatch']['nodes']>[number]

const nodes: Pane = {
  name: 'nodes',
  keys: ['3', 'n'],
  columns: columnsOf('NODE', 'STATUS', '>TASKS', '>SEEN', 'SERVICES', 'NOTES'),
  empty: 'No node is connected (only a server has nodes: name it with --url).',
  async look(box) {
    const items = await box.dispatch.nodes()
    const now = Date.now()
    const sorted = items.toSorted((a, b) => (a.nodeId < b.nodeId ? -1 : 1))
    return lookOf(items, sorted, (node) => nodeRow(node, now))
  },
}

function nodeRow(node: NodeLine, now: number): Row {
  const { nodeId, status, services, taskIds, seenAt, draining, cordoned, overloaded } = node
  const name = escapeText(nodeId)
  return {
    id: nodeId,
    cells: [
      ...[name, status, `${taskIds.length}`, showSpan(Math.max(0, now - seenAt))],
      escapeText(services.map((one) => `${one.name} ${one.used}/${one.slots}`).join(', ')),
      [
        ...(draining ? ['draining'] : []),
        ...(cordoned ? ['cordoned'] : []),
        ...(overloaded ? ['overloaded'] : []),
      ].join(', '),
    ],
    isAlert: draining || cordoned || overloaded || status !== 'ready',
    acts: {
      D: {
        question: draining
          ? `Give ${name} work again?`
          : `Drain ${name}? It gets no new tasks; running tasks may finish.`,
        async perform(box) {
          await box.dispatch.drain(nodeId, { on: !draining })
          return draining ? `${name} is given work again` : `${name} is given no new work`
        },
      },
    },
  }
}

type Contended = Awaited<ReturnType<RemoteBox['contention']['snapshot']>>

const contention: Pane = {
  name: 'contention',
  keys: ['4', 'c'],
  columns: columnsOf(
    'WHO WAITS',
    'LANE',
    '>WAITS',
    '>P50',
    '>P99',
    '>MAX',
    '>HOLDS P99',
    'MOSTLY ON',
    '>FOR',
  ),
  empty: 'Nothing has waited (it is measured in a server: name it with --url).',
  async look(box) {
    const snapshot = (await box.contention.snapshot()) as Contended
    return lookOf(snapshot, snapshot.kinds, (kind) => contentionRow(kind, snapshot.matrix))
  },
}

function contentionRow(
  { kind, lane, wait, hold }: Contended['kinds'][number],
  matrix: Contended['matrix'],
): Row {
  // The greatest cells come first.
  const most = matrix.find(({ waiter }) => waiter === kind)
  return {
    id: kind,
    cells: [
      ...[escapeText(kind), escapeText(lane ?? '-'), `${wait.count}`],
      ...[wait.p50Ms, wait.p99Ms, wait.maxMs, hold.p99Ms].map(showMs),
      most === undefined ? '-' : escapeText(most.holder),
      most === undefined ? '-' : showMs(most.ms),
    ],
    isAlert: false,
    acts: {},
  }
}

/** Shows jobs per second with the significant digits. */
function showRate(rate: number): string {
  return rate === 0 || rate >= 10 ? `${Math.round(rate)}` : rate.toFixed(1)
}

/** Shows a wait with the significant digits. */
export function showMs(ms: number): string {
  if (ms >= 120_000) return showSpan(ms)
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return ms >= 10 || ms === 0 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`
}

/** The workers of all processes and their running jobs. The user can quiet, resume and stop them. */
const workers: Pane = {
  name: 'workers',
  keys: ['5', 'w'],
  columns: columnsOf('WORKER', 'STATE', 'HOST', 'RELEASE', '>RUNS', 'QUEUES', 'NOW', '>SEEN'),
  empty: 'No worker runs.',
  async look(box) {
    const { items, cursor, at } = await box.jobs.workers({ limit: maxRows })
    const isGone = ({ state }: FleetWorker) => state === 'gone'
    const sorted = items.toSorted((a, b) => Number(isGone(a)) - Number(isGone(b)) || (a.id < b.id ? -1 : 1))
    return { ...lookOf(items, sorted, (worker) => workerRow(worker, at)), isCut: cursor !== null }
  },
}

function workerRow(worker: FleetWorker, at: number): Row {
  const { id, state, wanted, host, pid, release, queues, running, runningCount, concurrency, seenAt } = worker
  const kinds = Map.groupBy(running, ({ kind }) => kind)
  return {
    id,
    cells: [
      ...[id, state].map(escapeText),
      host === null ? '-' : escapeText(pid === null ? host : `${host} ${pid}`),
      release === null ? '-' : escapeText(release),
      `${runningCount ?? '-'}/${concurrency ?? '-'}`,
      escapeText(queues.join(', ')),
      escapeText(Array.from(kinds, ([kind, jobs]) => `${kind} ${jobs.length}`).join(', ')),
      showSpan(Math.max(0, at - seenAt)),
    ],
    isAlert: state !== 'running',
    acts: state === 'gone' || wanted === 'stop' ? {} : workerActs(id, wanted === 'quiet'),
  }
}

function workerActs(id: string, isQuiet: boolean): Readonly<Record<string, Act>> {
  const name = escapeText(id)
  return {
    P: {
      question: isQuiet
        ? `Resume ${name}?`
        : `Quiet ${name}? It finishes what it runs and claims nothing more.`,
      async perform(box) {
        await (isQuiet ? box.jobs.resumeWorker(id) : box.jobs.quietWorker(id))
        return isQuiet ? `${name} was asked to resume` : `${name} was asked to be quiet`
      },
    },
    S: {
      question: `Stop ${name}? What it still runs after 10 seconds goes back to its queue.`,
      async perform(box) {
        await box.jobs.stopWorker(id)
        return `${name} was asked to stop`
      },
    },
  }
}

/** Tasks for nodes, newest first. The user can cancel them. */
const tasks: Pane = {
  name: 'tasks',
  keys: ['6', 't'],
  columns: columnsOf('TASK', 'SERVICE', 'STATUS', 'NODE', '>ATTEMPT', '>AGE'),
  empty: 'There are no tasks.',
  async look(box) {
    const { items, cursor } = await box.dispatch.tasks({ limit: taskRows })
    const now = Date.now()
    return { ...lookOf(items, items, (task) => taskRow(task, now)), isCut: cursor !== null }
  },
}

/** Reads the tasks from the store each time. */
const taskRows = 100

function taskRow({ taskId, service, status, nodeId, attempt, submittedAt }: Task, now: number): Row {
  const isOver = status === 'completed' || status === 'failed' || status === 'cancelled'
  return {
    id: taskId,
    cells: [
      ...[taskId, service, status, nodeId ?? '-'].map(escapeText),
      `${attempt}`,
      showSpan(Math.max(0, now - submittedAt)),
    ],
    isAlert: status === 'failed',
    acts: isOver
      ? {}
      : {
          X: {
            question: `Cancel the task ${escapeText(taskId)}?`,
            async perform(box) {
              const { status: now } = await box.dispatch.cancel(taskId)
              return `the task ${escapeText(taskId)} is ${now}`
            },
          },
        },
  }
}

export const panes: readonly Pane[] = [queues, locks, nodes, contention, workers, tasks]

export function paneOf(name: PaneName): Pane {
  return panes.find((pane) => pane.name === name)!
}
