import { dispatchQueue, isKindOf } from '../../../dispatch/index.ts'
import { readScaling, type Scaling, type ScalingParts, type ServiceSight } from '../../../fleet/index.ts'
import { isReserved } from '../../../jobs/index.ts'
import type { Space } from '../call.ts'
import { createKnownAnswers, type KnownAnswer } from './known-answer.ts'
import type { Family, Value } from './metric-registry.ts'
import { capped } from './module-gauges.ts'
import { queueCountsOf } from './queue-counts.ts'

/** A namespace whose queues and services may be scaled. */
export type ScaledSpace = Pick<Space, 'namespace' | 'stores' | 'dispatch'>

/** What scaling is read from, in a namespace of this server. Counts of queues are shared with those who watch. */
export function scalingPartsOf(space: ScaledSpace): ScalingParts {
  const { stores } = space
  return {
    ...{ series: stores.series, workers: stores.workers },
    queues: async () => (await queueCountsOf(stores).recent()).lines,
    service: (service) => sightOf(space, service),
  }
}

/** Tasks that no server has claimed yet wait in the store. */
async function sightOf({ stores, dispatch }: ScaledSpace, service: string): Promise<ServiceSight> {
  const { kinds, now } = await stores.workers.readyKinds(dispatchQueue, maxKinds)
  const unclaimed = kinds.filter(({ kind }) => isKindOf(kind, service))
  const sight = dispatch.service(service)
  return {
    ...sight,
    waiting: unclaimed.reduce((sum, { count }) => sum + count, sight.waiting),
    oldestWaitMs: unclaimed.reduce(
      (longest, { oldestAt }) => Math.max(longest, now - oldestAt),
      sight.oldestWaitMs,
    ),
  }
}

const maxKinds = 5_000

/** Queues with a gauge of their own in each namespace: those with the most jobs. A gauge for `other` would say nothing. */
const maxQueues = 50

const scalingsOf: (space: ScaledSpace) => KnownAnswer<readonly Scaling[]> = createKnownAnswers(
  async (space) => {
    const parts = scalingPartsOf(space)
    const lines = (await parts.queues()).filter(({ queue }) => !isReserved(queue))
    const size = (line: (typeof lines)[number]) => line.ready + line.running + line.waiting
    const largest = lines.toSorted((a, b) => size(b) - size(a)).slice(0, maxQueues)
    return Promise.all(largest.map(({ queue }) => readScaling(parts, { queue })))
  },
  [],
)

/** How many workers the queues call for. A store that does not answer leaves it as it was, or out. */
export async function scalingFamilies(spaces: Iterable<ScaledSpace>): Promise<readonly Family[]> {
  const shown = capped(spaces).filter(({ label, item }) => label === item.namespace)
  const all = await Promise.all(
    shown.map(async ({ label, item }) => {
      const scalings = await scalingsOf(item).recent()
      return scalings.map((scaling) => ({ labels: { namespace: label, queue: scaling.queue! }, scaling }))
    }),
  )
  const gauge = (name: string, help: string, read: (scaling: Scaling) => number): Family => ({
    ...{ name, help },
    type: 'gauge',
    values: all.flat().map(({ labels, scaling }): Value => ({ labels, value: read(scaling) })),
  })
  return [
    gauge(
      'signalbox_scaling_wanted_workers',
      'How many workers the queue calls for; GET /v1/scaling says why.',
      ({ wanted }) => wanted,
    ),
    gauge('signalbox_scaling_live_workers', 'Live workers that take jobs of the queue.', ({ live }) => live),
  ]
}
