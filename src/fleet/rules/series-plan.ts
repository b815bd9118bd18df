import {
  hourMs,
  keepTensMs,
  minuteMs,
  type SeriesKeep,
  seriesBounds,
  stepAt,
  tenMinutesMs,
} from './series-row.ts'

/**
 * Which rows are put together next, which are deleted, and from which steps a reader reads. Pure: a store looks where its
 * rows begin, asks here and does what the plan says. So all engines keep the same steps.
 *
 *     rows of processes ──the minute is closed──▶ 1 min ──ten are there──▶ 10 min ──an hour is there──▶ 1 h
 *
 * The mark says up to where longer steps are put together. A store moves it in the transaction that writes them.
 */
export interface SeriesMark {
  readonly tensUntil: number
  readonly hoursUntil: number
}

/** Where the rows of a namespace begin; undefined: there are none. */
export interface SeriesExtent {
  /** The store's clock. */
  readonly now: number
  readonly mark: SeriesMark
  /** The first minute with rows of processes. */
  readonly firstPart: number | undefined
  /** The first minute that is in no step of ten, and the first of these that is in no hour. */
  readonly firstMinute: number | undefined
  readonly firstTen: number | undefined
  /** The oldest row of each step that is kept, in the order of `keptSteps`. */
  readonly oldest: readonly (number | undefined)[]
}

export interface SeriesPlan {
  /** The minute whose rows of processes become rows of the minute. */
  readonly part: number | undefined
  readonly rollUps: readonly RollUp[]
  /** Steps that are too old. */
  readonly old: readonly { readonly stepMs: number; readonly before: number }[]
}

/** Rows of `fromMs` from `from` to before `to` become rows of `stepMs`, and the mark moves at least to `mark`. */
export interface RollUp extends Span {
  readonly fromMs: number
  readonly stepMs: number
  readonly mark: SeriesMark
}

interface Span {
  readonly from: number
  readonly to: number
}

/** The steps that are kept, the shortest first. */
export const keptSteps: readonly number[] = [minuteMs, tenMinutesMs, hourMs]

/** How much of longer steps is put together in one transaction. */
const mostTensMs = hourMs
const mostHoursMs = 24 * hourMs

export function planSeries(extent: SeriesExtent, keep: SeriesKeep): SeriesPlan {
  const { now, mark, firstPart = Number.POSITIVE_INFINITY, firstMinute, firstTen, oldest } = extent
  const tensTo = stepAt(Math.min(firstPart, now - minuteMs - seriesBounds.closedMs), tenMinutesMs)
  // Without a minute beyond the mark, all steps of ten minutes up to `tensTo` are there already.
  const hoursTo = stepAt(
    firstMinute === undefined ? Math.max(mark.tensUntil, tensTo) : mark.tensUntil,
    hourMs,
  )
  const tens = spanFrom(firstMinute, tenMinutesMs, tensTo, mostTensMs)
  const hours = spanFrom(firstTen, hourMs, hoursTo, mostHoursMs)
  const keepMs = [keep.minutesMs, keepTensMs(keep), keep.hoursMs]
  const kept = keptSteps.map((stepMs, nr) => ({ stepMs, before: now - keepMs[nr]! }))
  return {
    part: firstPart + minuteMs + seriesBounds.closedMs <= now ? firstPart : undefined,
    rollUps: [
      ...tens.map((span) => ({
        ...{ ...span, fromMs: minuteMs, stepMs: tenMinutesMs },
        mark: { tensUntil: span.to, hoursUntil: 0 },
      })),
      ...hours.map((span) => ({
        ...{ ...span, fromMs: tenMinutesMs, stepMs: hourMs },
        mark: { tensUntil: 0, hoursUntil: span.to },
      })),
    ],
    old: kept.filter(({ before }, nr) => (oldest[nr] ?? Number.POSITIVE_INFINITY) < before),
  }
}

/** One span, or none. */
function spanFrom(first: number | undefined, stepMs: number, to: number, mostMs: number): readonly Span[] {
  if (first === undefined) return []
  const from = stepAt(first, stepMs)
  return from < to ? [{ from, to: Math.min(to, from + mostMs) }] : []
}

export function hasWork({ part, rollUps, old }: SeriesPlan): boolean {
  return part !== undefined || rollUps.length > 0 || old.length > 0
}

/**
 * The spans of hours, of ten minutes and of minutes that together cover the time from `from` to `to`, each row once. `stepMs`
 * is the longest step that the reader takes.
 */
export function planRead(
  { from, to, stepMs }: Span & { readonly stepMs: number },
  { tensUntil, hoursUntil }: SeriesMark,
): { readonly hours: Span; readonly tens: Span; readonly minutes: Span } {
  const hoursTo = stepMs >= hourMs ? clamp(hoursUntil, from, to) : from
  const tensTo = stepMs >= tenMinutesMs ? clamp(tensUntil, hoursTo, to) : from
  return {
    hours: { from, to: hoursTo },
    tens: { from: hoursTo, to: tensTo },
    minutes: { from: tensTo, to },
  }
}

function clamp(at: number, from: number, to: number): number {
  return Math.min(Math.max(at, from), Math.max(from, to))
}
