import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

/**
 * A time zone converts between instants and wall times. A wall time is written as the epoch milliseconds at which UTC's
 * clocks show the same.
 *
 *     clocks go forward  01:59 ──▶ 03:00    02:30 is never shown: it counts as the first instant after, 03:00
 *     clocks go back     02:59 ──▶ 02:00    02:30 is shown twice: it counts as its first instant
 */
export interface Zone {
  /** The wall time that the clocks show at this instant. */
  wallAt(instant: number): number
  /** The instant at which the clocks first show this wall time, or the first instant after a skipped one. */
  instantOf(wall: number): number
  /** The clock change within about a day of the instant: the wall times that are shown twice or never. */
  changeNear(instant: number): Change | undefined
}

/**
 * Wall times that are shown twice or never: from `from` to just before `before`. Their other instant, besides
 * `instantOf`, is `wall - offsetMs`: the second showing, or the instant by an unchanged clock.
 */
export interface Change {
  readonly from: number
  readonly before: number
  /** How far the clocks are ahead of UTC after they went back, or before they went forward. */
  readonly offsetMs: number
}

/** Two clock changes of a zone are further apart than this, and no clock is further from UTC. */
const nearMs = 26 * 3_600_000

/** Throws `invalid_argument` for an unknown zone. `name` names the option in messages. */
export function createZone(name: string, timeZone: unknown): Zone {
  const format = formatFor(name, timeZone)

  function offsetAt(instant: number): number {
    const second = Math.floor(instant / 1_000) * 1_000
    const [month, day, year, hour, minute, seconds] = format.format(second).match(/\d+/g)!.map(Number)
    return Date.UTC(year!, month! - 1, day, hour, minute, seconds) - second
  }

  /** Finds the first instant in (low, high] for which `holds` is true. From some instant on it must stay true. */
  function firstThat(low: number, high: number, holds: (instant: number) => boolean): number {
    let [no, yes] = [low, high]
    while (yes - no > 1) {
      const middle = Math.floor((no + yes) / 2)
      if (holds(middle)) yes = middle
      else no = middle
    }
    return yes
  }

  const wallAt = (instant: number) => instant + offsetAt(instant)
  return {
    wallAt,
    instantOf(wall) {
      const offsets = [offsetAt(wall - nearMs), offsetAt(wall + nearMs)]
      // The greater offset gives the earlier instant.
      for (const offset of offsets.sort((a, b) => b - a)) {
        if (wallAt(wall - offset) === wall) return wall - offset
      }
      return firstThat(wall - nearMs, wall + nearMs, (instant) => wallAt(instant) > wall)
    },
    changeNear(instant) {
      const [low, high] = [instant - nearMs, instant + nearMs]
      const [before, after] = [offsetAt(low), offsetAt(high)]
      if (before === after) return undefined
      const changedAt = firstThat(low, high, (middle) => offsetAt(middle) === after)
      const offsetMs = Math.min(before, after)
      return { from: changedAt + offsetMs, before: changedAt + Math.max(before, after), offsetMs }
    },
  }
}

/** A cache, because creating a format is slow. */
const formats = new Map<string, Intl.DateTimeFormat>()
const maxFormats = 100

function formatFor(name: string, timeZone: unknown): Intl.DateTimeFormat {
  try {
    if (typeof timeZone !== 'string') throw new TypeError('no text')
    const known = formats.get(timeZone)
    if (known !== undefined) return known
    const format = new Intl.DateTimeFormat('en-US', {
      ...{ timeZone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
    } as const)
    if (formats.size >= maxFormats) formats.clear()
    formats.set(timeZone, format)
    return format
  } catch (error) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a time zone such as "Europe/Berlin", "Asia/Shanghai" or "UTC", not ${show(timeZone)}.`,
      { cause: error, details: { option: name } },
    )
  }
}
