import { type ReactNode, useMemo, useRef } from 'react'
import type { WireOverview } from '../../../src/http/client/index.ts'
import { Chart, type ChartSeries } from '../../kit/chart.tsx'
import { useFormat, useWords } from '../../words/language.tsx'
import { overviewWords } from '../../words/overview.ts'
import { isSameSeries, type Series, seriesOf } from './series.ts'

/** The last hour: how many passed, how long they waited and ran, how many are left. */
export function Charts({ overview }: { readonly overview: WireOverview }): ReactNode {
  const say = useWords(overviewWords)
  const format = useFormat()
  const series = useSeries(overview)
  const { times } = series
  const throughput = useMemo<readonly ChartSeries[]>(
    () => [
      { label: say('added'), colour: '--series-1', values: series.rate('added') },
      { label: say('completed'), colour: '--series-2', values: series.rate('completed') },
      { label: say('failed'), colour: '--series-4', values: series.failures },
    ],
    [series, say],
  )
  const spread = (what: 'wait' | 'run'): readonly ChartSeries[] => [
    { label: say('median'), colour: '--series-1', values: series.column(`${what}P50Ms`) },
    { label: say('slowest'), colour: '--series-3', values: series.column(`${what}P99Ms`) },
  ]
  // biome-ignore lint/correctness/useExhaustiveDependencies: made of series and words alone
  const [waits, runs] = useMemo(() => [spread('wait'), spread('run')] as const, [series, say])
  const backlog = useMemo<readonly ChartSeries[]>(
    () => [
      { label: say('ready'), colour: '--series-1', values: series.column('ready') },
      { label: say('runningNow'), colour: '--series-2', values: series.column('running') },
    ],
    [series, say],
  )
  return (
    <div className="grid">
      <div className="card">
        <Chart title={say('throughput')} times={times} series={throughput} format={format.compact} />
      </div>
      <div className="card">
        <Chart title={say('backlog')} times={times} series={backlog} format={format.compact} />
      </div>
      <div className="card">
        <Chart title={say('waiting')} times={times} series={waits} format={format.span} />
      </div>
      <div className="card">
        <Chart title={say('running')} times={times} series={runs} format={format.span} />
      </div>
    </div>
  )
}

/** The same object for as long as no step ends, so that nothing is drawn again. */
function useSeries(overview: WireOverview): Series {
  const newest = useMemo(() => seriesOf(overview), [overview])
  const drawn = useRef(newest)
  if (!isSameSeries(drawn.current, newest)) drawn.current = newest
  return drawn.current
}
