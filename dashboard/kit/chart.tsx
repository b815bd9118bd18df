import { type ReactNode, useEffect, useMemo, useRef } from 'react'
import { useDark, usePreferences } from '../shell/preferences.ts'
import { localeOf } from '../words/catalogue.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import type { Plot } from './plot.ts'

export interface ChartSeries {
  readonly label: string
  /** A colour of the tokens: `--series-1` to `--series-4`, `--bad`, … */
  readonly colour: string
  /** One for each instant; null leaves a gap. */
  readonly values: readonly (number | null)[]
  /** Its values are samples of a lasting state: the line connects them. */
  readonly isSampled?: boolean
}

export interface ChartProps {
  readonly title: string
  /** Epoch milliseconds, rising. */
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
}

/** Lines over time, with their present values as text. What draws them is loaded when the first chart is shown. */
export function Chart({ title, times, series, format }: ChartProps): ReactNode {
  const say = useWords(kitWords)
  const { language } = usePreferences()
  const isDark = useDark()
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<Plot>(undefined)
  const locale = localeOf[language]
  // A change of the series, labels or theme rebuilds the chart; new values only update its lines.
  const shape = series.map(({ label, colour }) => `${label}\n${colour}`).join('\n\n')
  const newest = useRef({ times, series, format })
  newest.current = { times, series, format }

  // biome-ignore lint/correctness/useExhaustiveDependencies: shape and colours are what it is drawn with
  useEffect(() => {
    let isGone = false
    void import('./plot.ts').then(({ createPlot }) => {
      if (isGone || place.current === null) return
      plot.current = createPlot(place.current, newest.current, locale)
    })
    return () => {
      isGone = true
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [shape, isDark, locale])

  useEffect(() => plot.current?.show({ times, series, format }), [times, series, format])

  const summaries = useMemo(
    () => series.map(({ label, values }) => summarise(label, values, format, say)),
    [series, format, say],
  )
  const isEmpty = times.length === 0
  return (
    <figure className="chart">
      <figcaption>
        <strong>{title}</strong>
        {!isEmpty &&
          series.map(({ label, colour, values }) => (
            <span key={label} className="legend">
              <i style={{ background: `var(${colour})` }} />
              {label} <b>{lastOf(values, format)}</b>
            </span>
          ))}
      </figcaption>
      {isEmpty && <p className="chart-empty aside">{say('chartEmpty')}</p>}
      <div
        ref={place}
        className="plot"
        role="img"
        aria-label={[title, ...summaries].join('. ')}
        hidden={isEmpty}
      />
    </figure>
  )
}

function known(values: readonly (number | null)[]): readonly number[] {
  return values.filter((value) => value !== null)
}

function lastOf(values: readonly (number | null)[], format: (value: number) => string): string {
  const last = known(values).at(-1)
  return last === undefined ? '–' : format(last)
}

function summarise(
  label: string,
  values: readonly (number | null)[],
  format: (value: number) => string,
  say: (key: 'chartSummary', values: Record<'label' | 'last' | 'low' | 'high', string>) => string,
): string {
  const all = known(values)
  if (all.length === 0) return label
  const low = all.reduce((a, b) => Math.min(a, b))
  const high = all.reduce((a, b) => Math.max(a, b))
  return say('chartSummary', { label, last: format(all.at(-1)!), low: format(low), high: format(high) })
}
