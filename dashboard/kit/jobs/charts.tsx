import { type ReactNode, useMemo } from 'react'
import { type Range, ranges, useRange, useSeries } from '../../live/series.ts'
import { columnsOf, type Series, type SeriesPoint } from '../../live/series-columns.ts'
import { useFilters } from '../../shell/router.tsx'
import { chartsWords } from '../../words/charts.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { Chart, type ChartSeries } from '../chart.tsx'
import { Select } from '../field.tsx'
import { Loaded } from '../loaded.tsx'
import { Section } from '../page.tsx'

export interface ChartsProps {
  /** Only this queue. @default all */
  readonly queue?: string
}

/** What all processes did over the chosen time: how many jobs passed, how long they waited and ran, how many are left. */
export function Charts({ queue }: ChartsProps): ReactNode {
  const say = useWords(chartsWords)
  const range = useRange()
  const choose = useFilters()
  return (
    <Section
      title={say('overTime')}
      actions={
        <Select
          bare
          label={say('range')}
          value={range}
          options={(Object.keys(ranges) as Range[]).map((one) => [one, say(`range_${one}`)] as const)}
          onChange={(one) => choose({ range: one })}
        />
      }
    >
      <Loaded query={useSeries(range, queue)}>{(series) => <Drawn series={series} />}</Loaded>
    </Section>
  )
}

function Drawn({ series }: { readonly series: Series }): ReactNode {
  const say = useWords(chartsWords)
  const format = useFormat()
  const columns = useMemo(() => columnsOf(series), [series])
  const { times } = columns
  const throughput = useMemo<readonly ChartSeries[]>(
    () => [
      { label: say('added'), colour: '--series-1', values: columns.rate('added') },
      { label: say('completed'), colour: '--series-2', values: columns.rate('completed') },
      { label: say('failed'), colour: '--series-4', values: columns.rate('failed', 'dead') },
    ],
    [columns, say],
  )
  const backlog = useMemo<readonly ChartSeries[]>(() => {
    const sampled = (read: (point: SeriesPoint) => number | null) => ({
      ...{ values: columns.column(read), isSampled: true },
    })
    return [
      { label: say('ready'), colour: '--series-1', ...sampled(({ ready }) => ready) },
      { label: say('runningNow'), colour: '--series-2', ...sampled(({ running }) => running) },
    ]
  }, [columns, say])
  const spread = (what: 'wait' | 'run'): readonly ChartSeries[] => [
    { label: say('median'), colour: '--series-1', values: columns.column((point) => point[what]?.p50Ms) },
    { label: say('slowest'), colour: '--series-3', values: columns.column((point) => point[what]?.p99Ms) },
  ]
  // biome-ignore lint/correctness/useExhaustiveDependencies: made of columns and words alone
  const [waits, runs] = useMemo(() => [spread('wait'), spread('run')] as const, [columns, say])
  return (
    <div className="charts">
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
