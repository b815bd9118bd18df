import { showCount } from '../../core/job-words.ts'
import type { WireOverview } from '../../http/client/index.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { LockSummary } from '../../locks/index.ts'
import { escapeText, showSpan } from '../print.ts'
import { tasks, workers } from './fleet-panes.ts'
import { columnsOf, lookOf, maxRows, type Pane, type PaneName, type Row } from './pane.ts'
import { type QueueRate, queueRates } from './rates.ts'

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
    return lookOf(raw, sorted, (line) => queueRow(line, rates && (rates.get(line.queue) ?? still), now))
  },
}

const still: QueueRate = { addedPerSecond: 0, endedPerSecond: 0 }

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
    const seen = (await box.contention.snapshot()) as Contended
    return lookOf(seen, seen.kinds, (kind) => contentionRow(kind, seen.matrix))
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

/** Jobs a second, with as many digits as matter. */
function showRate(rate: number): string {
  return rate === 0 || rate >= 10 ? `${Math.round(rate)}` : rate.toFixed(1)
}

/** A wait, with as many digits as matter. */
export function showMs(ms: number): string {
  if (ms >= 120_000) return showSpan(ms)
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return ms >= 10 || ms === 0 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`
}

export const panes: readonly Pane[] = [queues, locks, nodes, contention, workers, tasks]

export function paneOf(name: PaneName): Pane {
  return panes.find((pane) => pane.name === name)!
}
