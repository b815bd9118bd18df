import type { BoundCounts, Contention } from '../../../contention/index.ts'
import type { Family, Labels, Value } from './metric-series.ts'

/**
 * Waits, holds and who waited on whom, for Prometheus. Kinds and cells are bounded in number and carry no user's data, so
 * everybody who may scrape sees all of them.
 */
export function waitFamilies(contention: Pick<Contention, 'series'>): readonly Family[] {
  const { kinds, matrix } = contention.series(boundsMs)
  const family = (name: string, help: string, part: 'wait' | 'hold'): Family => ({
    name,
    help,
    type: 'histogram',
    values: kinds.flatMap(({ kind, [part]: counts }) => (counts ? valuesOf(name, { kind }, counts) : [])),
  })
  return [
    family('signalbox_wait_seconds', 'How long commands waited for their turn, by kind.', 'wait'),
    family('signalbox_hold_seconds', 'How long their turns took, by kind.', 'hold'),
    {
      name: 'signalbox_waited_on_seconds_total',
      help: 'Who waited on whom: of waits of more than a millisecond, the part in which the holder ran.',
      type: 'counter',
      values: matrix.map(({ waiter, holder, ms }) => ({ labels: { waiter, holder }, value: ms / 1_000 })),
    },
  ]
}

/** From a tenth of a millisecond: a turn that takes one is long. */
const boundsMs = [0.1, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]

function valuesOf(name: string, labels: Labels, { counts, count, sumMs }: BoundCounts): readonly Value[] {
  const bucket = `${name}_bucket`
  return [
    ...counts.map((value, index) => ({
      labels: { ...labels, le: boundsMs[index]! / 1_000 },
      value,
      metricName: bucket,
    })),
    { labels: { ...labels, le: '+Inf' }, value: count, metricName: bucket },
    { labels, value: sumMs / 1_000, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ]
}
