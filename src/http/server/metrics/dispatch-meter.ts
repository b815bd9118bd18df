import type { Clock } from '../../../core/clock.ts'
import { createCappedLines } from './capped-series.ts'
import { createHistogramCell, type Family, type HistogramCell, soonBounds } from './metric-series.ts'

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
