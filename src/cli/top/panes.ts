import type { WireOverview } from '../../http/client/index.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { LockSummary } from '../../locks/index.ts'
import { escapeText } from '../print.ts'
import { showSpan } from '../table.ts'

/** What is shown on one page: a table, and how its rows come from the box. */
export interface Pane {
  readonly name: PaneName
  /** The keys that show it; the first is shown. */
  readonly keys: readonly string[]
  readonly columns: readonly Column[]
  /** What an empty table says. */
  readonly empty: string
  /** Asks for what is shown, and no more than that. */
  look(box: Box | RemoteBox): Promise<Look>
}

export const paneNames = ['queues', 'locks', 'nodes', 'contention'] as const
export type PaneName = (typeof paneNames)[number]

export interface Column {
  readonly head: string
  readonly align: 'left' | 'right'
}

export interface Look {
  readonly rows: readonly Row[]
  /** There are more than are shown. */
  readonly isCut: boolean
  /** The same for `--json`. */
  readonly raw: unknown
}

export interface Row {
  /** The same thing has the same id in the next look. */
  readonly id: string
  readonly cells: readonly string[]
  /** It needs attention. */
  readonly isAlert: boolean
  /** What can be done to it, by the key that does it. */
  readonly acts: Readonly<Record<string, Act>>
}

export interface Act {
  readonly question: string
  /** Does it; answers what was done, in words. */
  perform(box: Box | RemoteBox): Promise<string>
}

/** More rows than a user scrolls through. */
const maxRows = 500

type QueueLine = WireOverview['queues'][number]

const queues: Pane = {
  name: 'queues',
  keys: ['1'],
  columns: columnsOf('QUEUE', '>READY', '>SCHEDULED', '>WAITING', '>RUNNING', '>DEAD', '>OLDEST', 'STATE'),
  empty: 'There are no queues yet.',
  async look(box) {
    const lines = await box.jobs.stats()
    const now = Date.now()
    const sorted = lines.toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
    return lookOf(lines, sorted, (line) => queueRow(line, now))
  },
}

function queueRow(line: QueueLine, now: number): Row {
  const { queue, ready, scheduled, waiting, running, dead, oldestReadyAt, paused, limits } = line
  const name = escapeText(queue)
  return {
    id: queue,
    cells: [
      ...[name, `${ready}`, `${scheduled}`, `${waiting}`, `${running}`, `${dead}`],
      oldestReadyAt === null ? '-' : showSpan(Math.max(0, now - oldestReadyAt)),
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
              question: `Retry the dead jobs of ${name} (${dead})?`,
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
          : `Drain ${name}? It gets no new work; what it runs may end.`,
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

/** A wait, with as many digits as matter. */
export function showMs(ms: number): string {
  if (ms >= 120_000) return showSpan(ms)
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return ms >= 10 || ms === 0 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`
}

function lookOf<Item>(raw: unknown, items: readonly Item[], rowOf: (item: Item) => Row): Look {
  return { raw, rows: items.slice(0, maxRows).map(rowOf), isCut: items.length > maxRows }
}

/** A head that begins with `>` stands over a column of numbers. */
function columnsOf(...heads: readonly string[]): readonly Column[] {
  return heads.map((head) => ({
    head: head.replace(/^>/, ''),
    align: head.startsWith('>') ? 'right' : 'left',
  }))
}

export const panes: readonly Pane[] = [queues, locks, nodes, contention]

export function paneOf(name: PaneName): Pane {
  return panes.find((pane) => pane.name === name)!
}
