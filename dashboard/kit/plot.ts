import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { ChartSeries } from './chart.tsx'
import { downsample, nearest } from './downsample.ts'

/** A drawn chart. */
export interface Plot {
  show(drawn: Drawn): void
  destroy(): void
}

export interface Drawn {
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
}

const height = 132
const dayMs = 86_400_000

/** Draws on a canvas, which knows no variables: colours are read from the page, and again when they change. */
export function createPlot(place: HTMLElement, first: Drawn, locale: string): Plot {
  const styles = getComputedStyle(place)
  const colour = (name: string) => {
    place.style.color = `var(${name})`
    return styles.color
  }
  const font = `11px ${styles.fontFamily}`
  let drawn = first
  const clocks = createClocks(locale)
  const axis = { stroke: colour('--ink-3'), font, ticks: { show: false } }
  const grid = { stroke: colour('--line'), width: 1 }
  const widthOf = (plot: UPlot, texts: readonly string[]) => {
    plot.ctx.font = `${11 * devicePixelRatio}px ${styles.fontFamily}`
    return Math.max(0, ...texts.map((text) => plot.ctx.measureText(text).width)) / devicePixelRatio
  }
  const printTimes = (ticks: readonly number[]) => {
    const clock = clocks.axis(((ticks.at(-1) ?? 0) - (ticks[0] ?? 0)) * 1_000)
    return ticks.map((at) => clock.format(at * 1_000))
  }
  const tip = createTip(place)
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
          // Room for the widest label of this range, with air around it.
          space: (self, _nth, low, high) => widthOf(self, printTimes([low, high])) + 24,
          values: (_, ticks) => printTimes(ticks),
        },
        {
          ...axis,
          grid,
          size: (self, values) => Math.max(32, Math.ceil(widthOf(self, values ?? [])) + 14),
          space: 28,
          values: (_, ticks) => ticks.map((value) => drawn.format(value)),
        },
      ],
      series: [
        {},
        ...first.series.map(({ label, colour: name, isSampled = false }) => ({
          label,
          stroke: colour(name),
          width: 1.5,
          // Connect the samples of a lasting state.
          spanGaps: isSampled,
          points: { show: isAlone },
        })),
      ],
      hooks: {
        setCursor: [
          (self) => {
            const { left = -1 } = self.cursor
            const at = left < 0 ? -1 : nearest(drawn.times, self.posToVal(left, 'x') * 1_000)
            if (at < 0) return tip.hide()
            const time = drawn.times[at]!
            const lines = drawn.series.map(({ label, colour: name, values, isSampled = false }) => {
              const nth = isSampled ? values.findLastIndex((one, nth) => nth <= at && one !== null) : at
              const value = values[nth] ?? null
              return { label, colour: name, text: value === null ? '–' : drawn.format(value) }
            })
            const isLong = drawn.times.at(-1)! - drawn.times[0]! > dayMs / 2
            tip.show((isLong ? clocks.long : clocks.exact).format(time), lines, self.over.offsetLeft + left)
          },
        ],
      },
    },
    dataOf(first, place.clientWidth),
    place,
  )
  place.style.color = ''
  const watch = new ResizeObserver(() => {
    if (place.clientWidth === 0) return
    plot.setSize({ width: place.clientWidth, height })
    plot.setData(dataOf(drawn, place.clientWidth))
  })
  watch.observe(place)
  return {
    show(next) {
      drawn = next
      plot.setData(dataOf(next, place.clientWidth))
    },
    destroy() {
      watch.disconnect()
      plot.destroy()
      tip.remove()
    },
  }
}

/** How instants are written, by how much is shown. */
function createClocks(locale: string) {
  const minutes = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const day = { month: 'short', day: 'numeric' } as const
  const fine = new Intl.DateTimeFormat(locale, { ...minutes, second: '2-digit' })
  const coarse = new Intl.DateTimeFormat(locale, minutes)
  const days = new Intl.DateTimeFormat(locale, { ...day, ...minutes })
  const dates = new Intl.DateTimeFormat(locale, day)
  return {
    exact: fine,
    long: days,
    axis(spanMs: number): Intl.DateTimeFormat {
      if (spanMs < 600_000) return fine
      if (spanMs < 1.2 * dayMs) return coarse
      return spanMs < 5 * dayMs ? days : dates
    },
  }
}

interface TipLine {
  readonly label: string
  readonly colour: string
  readonly text: string
}

/** The instant under the pointer and what each line has there, beside the pointer and never outside of the chart. */
function createTip(place: HTMLElement) {
  const box = document.createElement('div')
  box.className = 'chart-tip'
  box.hidden = true
  // The chart's description says the same in words.
  box.setAttribute('aria-hidden', 'true')
  place.append(box)
  return {
    hide() {
      box.hidden = true
    },
    show(time: string, lines: readonly TipLine[], x: number) {
      const head = document.createElement('strong')
      head.textContent = time
      box.replaceChildren(head, ...lines.map(lineOf))
      box.hidden = false
      const isRight = x > place.clientWidth / 2
      box.style.left = isRight ? '' : `${x + 12}px`
      box.style.right = isRight ? `${place.clientWidth - x + 12}px` : ''
    },
    remove: () => box.remove(),
  }
}

function lineOf({ label, colour, text }: TipLine): HTMLElement {
  const line = document.createElement('span')
  const mark = document.createElement('i')
  mark.style.background = `var(${colour})`
  const value = document.createElement('b')
  value.textContent = text
  line.append(mark, label, value)
  return line
}

/** One value by itself would make no line, so it is drawn as a point. */
function isAlone({ data }: UPlot, nth: number): boolean {
  return Array.from(data[nth]!).filter((value) => typeof value === 'number').length === 1
}

/** Two points a pixel are as many as one can see. */
function dataOf({ times, series }: Drawn, width: number): UPlot.AlignedData {
  const lines = series.map(({ values }) => values)
  const [kept, shown] = downsample(times, lines, Math.max(120, width) * 2)
  return [kept.map((at) => at / 1_000), ...shown.map((values) => [...values])]
}
