import type { Clock } from '../../../core/clock.ts'
import type { ServiceCounts } from '../../../dispatch/index.ts'
import { createCappedLines } from './capped-series.ts'
import {
  createHistogramCell,
  type Family,
  type HistogramCell,
  soonBounds,
  type Value,
} from './metric-series.ts'

/** A namespace, how many nodes are connected to this server in it, by status, and how its services stand here. */
export interface NodesSpace {
  readonly namespace: string
  nodeStates?(): ReadonlyMap<string, number>
  serviceCounts?(): readonly ServiceCounts[]
}

/** Nodes choose the names of services: more lines than these, over all namespaces, are added up as `other`. */
export const maxServiceLines = 500

interface Line extends ServiceCounts {
  readonly namespace: string
}

/** Each server shows its own nodes and the tasks that wait at it, so that those of all servers add up. */
export function nodeFamilies(spaces: Iterable<NodesSpace>): readonly Family[] {
  const nodes: Value[] = []
  const lines: Line[] = []
  for (const space of spaces) {
    const { namespace } = space
    for (const [state, value] of space.nodeStates?.() ?? [])
      nodes.push({ labels: { namespace, state }, value })
    for (const counts of space.serviceCounts?.() ?? []) lines.push({ namespace, ...counts })
  }
  const shown = capped(lines)
  const gauge = (name: string, help: string, read: (line: Line) => number): Family => ({
    name,
    help,
    type: 'gauge',
    values: shown.map((line) => ({
      labels: { namespace: line.namespace, service: line.service },
      value: read(line),
    })),
  })
  return [
    {
      name: 'signalbox_nodes',
      help: 'Nodes that are connected here, by status.',
      type: 'gauge',
      values: nodes,
    },
    gauge('signalbox_tasks_waiting', 'Tasks that wait for a node at this server.', ({ waiting }) => waiting),
    gauge(
      'signalbox_tasks_oldest_wait_seconds',
      'How long the oldest task that waits here has waited since it was submitted; 0 when none waits.',
      ({ oldestWaitMs }) => Math.max(0, oldestWaitMs) / 1_000,
    ),
    gauge('signalbox_slots', 'Slots of the nodes that are connected here.', ({ slots }) => slots),
    gauge('signalbox_slots_used', 'Those of them in use.', ({ used }) => used),
  ]
}

/** The lines in which most waits keep their names; those in which nothing waits and no slot is used give way first. */
function capped(lines: readonly Line[]): readonly Line[] {
  if (lines.length <= maxServiceLines) return lines
  const byWeight = lines.toSorted((a, b) => b.waiting - a.waiting || b.used - a.used || b.slots - a.slots)
  const rest = byWeight.slice(maxServiceLines)
  const sum = (read: (line: Line) => number) => rest.reduce((total, line) => total + read(line), 0)
  return [
    ...byWeight.slice(0, maxServiceLines),
    {
      ...{ namespace: 'other', service: 'other' },
      waiting: sum(({ waiting }) => waiting),
      oldestWaitMs: Math.max(...rest.map(({ oldestWaitMs }) => oldestWaitMs)),
      slots: sum(({ slots }) => slots),
      used: sum(({ used }) => used),
    },
  ]
}

/** Counts how long tasks waited for their first node, by namespace: up to 100 by name, the rest as `other`. */
export interface DispatchMeter {
  /** A task was given to a node for the first time, so long after it was submitted. */
  placed(namespace: string, waitedMs: number): void
  /** What was counted, of one namespace or of all. */
  families(namespace: string | undefined): readonly Family[]
}

const maxNamespaces = 100

export function createDispatchMeter(clock: Clock): DispatchMeter {
  const namespaces = createCappedLines<HistogramCell>({
    labelNames: ['namespace'],
    limit: maxNamespaces,
    create: () => createHistogramCell(soonBounds),
  })
  const name = 'signalbox_dispatch_seconds'
  return {
    placed(namespace, waitedMs) {
      namespaces.find([namespace], clock.now()).observe(waitedMs / 1_000)
    },
    families: (namespace) => [
      {
        name,
        help: 'From submitting a task to giving it to its first node, by this server; later attempts are not counted.',
        type: 'histogram',
        values: namespaces
          .all()
          .filter(({ labels }) => namespace === undefined || labels.namespace === namespace)
          .flatMap(({ labels, cells }) => cells.values(name, labels)),
      },
    ],
  }
}
