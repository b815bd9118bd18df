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
 * Plans which rows a store merges next, which it deletes, and which steps a reader reads. Pure: a store finds where its
 * rows begin, asks for a plan and carries it out. So all engines keep the same steps.
 *
 *     rows of processes ──the minute is closed──▶ 1 min ──ten are there──▶ 10 min ──an hour is there──▶ 1 h
 *
 * The mark says up to where longer steps are complete. A store advances it in the transaction that writes them.
 */
export interface SeriesMark {
  readonly tensUntil: number
  readonly hoursUntil: number
}

/** Where the rows of a namespace begin; undefined: no rows. */
export interface SeriesExtent {
  /** The store's clock. */
  readonly now: number
  readonly mark: SeriesMark
  /** The first minute with rows of processes. */
  readonly firstPart: number | undefined
  /** The first minute that is in no step of ten minutes, and the first step of ten minutes that is in no hour. */
  readonly firstMinute: number | undefined
  readonly firstTen: number | undefined
  /** The oldest row of each step, in the order of `keptSteps`. */
  readonly oldest: readonly (number | undefined)[]
}

export interface SeriesPlan {
  /** The minute whose rows of processes the store merges. */
  readonly minuteToMerge: number | undefined
  readonly merges: readonly Merge[]
  /** Steps to delete, because they are too old. */
  readonly old: readonly { readonly stepMs: number; readonly before: number }[]
}

/** Merges rows of `fromMs`, from `from` to before `to`, into rows of `stepMs`. Then the mark is at least `mark`. */
export interface Merge extends Span {
  readonly fromMs: number
  readonly stepMs: number
  readonly mark: SeriesMark
}

interface Span {
  readonly from: number
  readonly to: number
}

/** The stored steps, the shortest first. */
export const keptSteps: readonly number[] = [minuteMs, tenMinutesMs, hourMs]

/** The longest time that one transaction merges. */
const maxTensMs = hourMs
const maxHoursMs = 24 * hourMs

export function planSeries(extent: SeriesExtent, keep: SeriesKeep): SeriesPlan {
  const { now, mark, firstPart = Number.POSITIVE_INFINITY, firstMinute, firstTen, oldest } = extent
  const tensTo = stepAt(Math.min(firstPart, now - minuteMs - seriesBounds.closedMs), tenMinutesMs)
  // Without a minute behind the mark, all steps of ten minutes up to `tensTo` are complete.
  const hoursTo = stepAt(
    firstMinute === undefined ? Math.max(mark.tensUntil, tensTo) : mark.tensUntil,
    hourMs,
  )
  const tens = spanFrom(firstMinute, tenMinutesMs, tensTo, maxTensMs)
  const hours = spanFrom(firstTen, hourMs, hoursTo, maxHoursMs)
  const keepMs = [keep.minutesMs, keepTensMs(keep), keep.hoursMs]
  const kept = keptSteps.map((stepMs, nr) => ({ stepMs, before: now - keepMs[nr]! }))
  return {
    minuteToMerge: firstPart + minuteMs + seriesBounds.closedMs <= now ? firstPart : undefined,
    merges: [
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
function spanFrom(first: number | undefined, stepMs: number, to: number, maxMs: number): readonly Span[] {
  if (first === undefined) return []
  const from = stepAt(first, stepMs)
  return from < to ? [{ from, to: Math.min(to, from + maxMs) }] : []
}

export function hasWork({ minuteToMerge, merges, old }: SeriesPlan): boolean {
  return minuteToMerge !== undefined || merges.length > 0 || old.length > 0
}

/**
 * Returns the spans of hours, ten minutes and minutes that together cover the time from `from` to `to`, each row once.
 * `stepMs` is the longest step that the reader accepts.
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
