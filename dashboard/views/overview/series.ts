import type { WireOverview } from '../../../src/http/client/index.ts'

type Sample = WireOverview['history']['samples'][number]

/** Samples as columns over an even grid: a step that is not there had nothing in it. */
export interface Series {
  readonly times: readonly number[]
  readonly cells: readonly (Sample | undefined)[]
  /** Per second. */
  rate(what: 'added' | 'completed'): readonly number[]
  readonly failures: readonly number[]
  column(what: keyof Sample): readonly (number | null)[]
}

export function seriesOf({ at, history }: Pick<WireOverview, 'at' | 'history'>): Series {
  const { stepMs, since, samples } = history
  const byTime = new Map(samples.map((sample) => [sample.at, sample]))
  const end = Math.floor(at / stepMs) * stepMs
  const begin = Math.max(Math.floor(since / stepMs) * stepMs, end - 3_600_000)
  const times: number[] = []
  // The step under way is left out: it would always look like a fall.
  for (let time = begin; time < end; time += stepMs) times.push(time)
  const cells = times.map((time) => byTime.get(time))
  const perSecond = stepMs / 1_000
  return {
    times,
    cells,
    rate: (what) => cells.map((sample) => (sample?.[what] ?? 0) / perSecond),
    failures: cells.map((sample) => ((sample?.retried ?? 0) + (sample?.dead ?? 0)) / perSecond),
    column: (what) => cells.map((sample) => sample?.[what] ?? null),
  }
}

/** Whether they show the same. Answers come far more often than steps end, and drawing is the dearest thing a page does. */
export function isSameSeries(a: Series, b: Series): boolean {
  return (
    a.times.length === b.times.length &&
    a.times[0] === b.times[0] &&
    a.cells.every((sample, nth) => sample === b.cells[nth])
  )
}

/** How many attempts ended within the last minute. */
export function endedPerMinute({ at, history }: Pick<WireOverview, 'at' | 'history'>): number {
  const recent = history.samples.filter((sample) => sample.at > at - 60_000)
  return recent.reduce((sum, { completed, retried, dead }) => sum + completed + retried + dead, 0)
}
