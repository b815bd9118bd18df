import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { ChartSeries } from './chart.tsx'

/** A drawn chart. */
export interface Plot {
  show(times: readonly number[], series: readonly ChartSeries[]): void
  destroy(): void
}

interface Drawn {
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
}

const height = 132

/** Draws on a canvas, which knows no variables: colours are read from the page, and again when they change. */
export function createPlot(place: HTMLElement, { times, series, format }: Drawn, locale: string): Plot {
  const styles = getComputedStyle(place)
  const colour = (name: string) => {
    place.style.color = `var(${name})`
    return styles.color
  }
  const font = `11px ${styles.fontFamily}`
  const minutes = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const coarse = new Intl.DateTimeFormat(locale, minutes)
  const fine = new Intl.DateTimeFormat(locale, { ...minutes, second: '2-digit' })
  const printTimes = (ticks: readonly number[]) => {
    const clock = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0) < 600 ? fine : coarse
    return ticks.map((at) => clock.format(at * 1_000))
  }
  const axis = { stroke: colour('--ink-3'), font, ticks: { show: false } }
  const grid = { stroke: colour('--line'), width: 1 }
  const plot = new UPlot(
    {
      width: Math.max(120, place.clientWidth),
      height,
      legend: { show: false },
      cursor: { y: false, points: { size: 5 } },
      padding: [8, 24, 0, 0],
      scales: { x: { time: true }, y: { range: (_, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 22,
          space: 84,
          values: (_, ticks) => printTimes(ticks),
        },
        { ...axis, grid, size: 56, space: 28, values: (_, ticks) => ticks.map((value) => format(value)) },
      ],
      series: [
        {},
        ...series.map(({ label, colour: name }) => ({
          label,
          stroke: colour(name),
          width: 1.5,
          spanGaps: false,
          points: { show: isAlone },
        })),
      ],
    },
    dataOf(times, series),
    place,
  )
  place.style.color = ''
  const watch = new ResizeObserver(() => {
    if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height })
  })
  watch.observe(place)
  return {
    show: (nextTimes, nextSeries) => plot.setData(dataOf(nextTimes, nextSeries)),
    destroy() {
      watch.disconnect()
      plot.destroy()
    },
  }
}

/** One value by itself would make no line, so it is drawn as a point. */
function isAlone({ data }: UPlot, nth: number): boolean {
  return Array.from(data[nth]!).filter((value) => typeof value === 'number').length === 1
}

function dataOf(times: readonly number[], series: readonly ChartSeries[]): UPlot.AlignedData {
  return [times.map((at) => at / 1_000), ...series.map(({ values }) => [...values])]
}
