import { Cron, CronPattern } from 'croner'
import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { createZone } from './time-zone.ts'

/** The instants at which a schedule runs: its slots. */
export interface Slots {
  /** The first slot after that instant; null: no further slot. */
  next(after: number): number | null
  /** The slots after `after` up to and including `until`, oldest first; of more than `max`, the newest. */
  newest(after: number, until: number, max: number): readonly number[]
}

/** A slot at `startAt`, and one after each further `everyMs`. */
export function createRate(everyMs: number, startAt: number): Slots {
  const countAt = (instant: number) => Math.max(-1, Math.floor((instant - startAt) / everyMs))
  return {
    next: (after) => startAt + (countAt(after) + 1) * everyMs,
    newest(after, until, max) {
      const last = countAt(until)
      const first = Math.max(countAt(after) + 1, last - max + 1)
      return Array.from(
        { length: Math.max(0, last - first + 1) },
        (_, at) => startAt + (first + at) * everyMs,
      )
    },
  }
}

/** The same slots without those after `endAt`. */
export function endSlots(slots: Slots, endAt: number | null): Slots {
  if (endAt === null) return slots
  return {
    next(after) {
      const slot = slots.next(after)
      return slot === null || slot > endAt ? null : slot
    },
    newest: (after, until, max) => slots.newest(after, Math.min(until, endAt), max),
  }
}

const firstLookMs = 120_000

/**
 * Implements `newest` with `next` only. A server may return after a year to a line that runs every second. So the
 * search goes back from the end: two minutes at first, then further, until there are enough slots. A line may also
 * pause for months and run every second before that. If there are far too many slots, the search halves the distance.
 * So it never lists many slots.
 */
export function newestByNext(
  next: Slots['next'],
  after: number,
  until: number,
  max: number,
): readonly number[] {
  const most = 2 * max + 8
  /** Lists the slots after `from`, up to one more than `most`. */
  function listFrom(from: number): readonly number[] {
    const found: number[] = []
    for (let slot = next(from); slot !== null && slot <= until; slot = next(slot)) {
      found.push(slot)
      if (found.length > most) break
    }
    return found
  }

  let tooFew = until
  let tooMany = until
  for (let spanMs = firstLookMs; tooMany === until; spanMs *= 4) {
    const from = Math.max(after, until - spanMs)
    const found = listFrom(from)
    if (found.length > most) tooMany = from
    else if (found.length >= max || from <= after) return found.slice(-max)
    else tooFew = from
  }
  // No two slots share a millisecond, so between too many and too few there is an instant with neither.
  for (;;) {
    const middle = Math.floor((tooMany + tooFew) / 2)
    const found = listFrom(middle)
    if (found.length > most) tooMany = middle
    else if (found.length < max) tooFew = middle
    else return found.slice(-max)
  }
}

/**
 * The slots of a cron line in a time zone. croner parses the line and finds its wall times, as if clocks never changed.
 * The zone turns them into instants.
 *
 * A line that names hours runs once per wall time: a repeated hour gives no second run, and a skipped wall time runs at
 * the first instant after it. A line for every hour means intervals, not times of day: it also runs in the repeated
 * hour, and in a skipped hour it runs at the instants of an unchanged clock.
 */
export function createCron(name: string, line: unknown, timeZone: unknown): Slots {
  const zone = createZone(name.replace(/cron$/, 'timeZone'), timeZone)
  const { walls, isHourly } = readLine(name, line)

  function next(after: number): number | null {
    return isHourly ? earlier(nextShown(after), nextInChange(after)) : nextNamed(after)
  }

  /** Gives each wall time one slot: when it is first shown, or the first instant after a skipped one. */
  function nextNamed(after: number): number | null {
    for (let wall = walls(zone.wallAt(after)); wall !== null; ) {
      const slot = zone.instantOf(wall)
      if (slot > after) return slot
      wall = walls(lastShownAgain(after, wall))
    }
    return null
  }

  /** The same without skipped wall times. */
  function nextShown(after: number): number | null {
    for (let wall = walls(zone.wallAt(after)); wall !== null; ) {
      const slot = zone.instantOf(wall)
      const shown = zone.wallAt(slot)
      if (shown === wall && slot > after) return slot
      wall = walls(shown === wall ? lastShownAgain(after, wall) : shown - 1)
    }
    return null
  }

  /** The last wall time that the clocks show a second time. */
  function lastShownAgain(after: number, wall: number): number {
    return Math.max(wall, (zone.changeNear(after)?.before ?? wall) - 1)
  }

  /** The next repeated or skipped wall time, at its other instant. */
  function nextInChange(after: number): number | null {
    const change = zone.changeNear(after)
    if (change === undefined) return null
    const wall = walls(Math.max(change.from - 1, after + change.offsetMs))
    return wall === null || wall >= change.before ? null : wall - change.offsetMs
  }

  return { next, newest: (after, until, max) => newestByNext(next, after, until, max) }
}

const mode = '5-or-6-parts'
const maxChars = 200
const fieldNames = ['second', 'minute', 'hour', 'day of the month', 'month', 'day of the week']

interface Line {
  /** The first wall time after `after` that the line names; null: none. */
  walls(after: number): number | null
  /** Whether it runs in every hour of the day. */
  readonly isHourly: boolean
}

function readLine(name: string, line: unknown): Line {
  if (typeof line !== 'string' || line.length > maxChars) {
    throw refusal(name, `${name} must be a cron line of up to ${maxChars} characters, not ${show(line)}.`)
  }
  let pattern: CronPattern
  try {
    pattern = new CronPattern(line, 'UTC', { mode })
  } catch (error) {
    throw unreadable(name, line, error)
  }
  const cron = new Cron(line, { utcOffset: 0, mode, paused: true })
  const walls = (after: number) => cron.nextRun(new Date(after))?.getTime() ?? null
  if (!everComes(pattern, walls)) {
    throw refusal(
      name,
      `${name} ${show(line)} names no day that exists: check its day of the month and its month.`,
      { field: 'day of the month' },
    )
  }
  return { walls, isHourly: pattern.hour.every((isNamed) => isNamed === 1) }
}

const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Whether the line names a day that exists. */
function everComes(pattern: CronPattern, walls: Line['walls']): boolean {
  const { day, month, starDOW, lastDayOfMonth, nearestWeekdays } = pattern
  const isOther = lastDayOfMonth || nearestWeekdays.includes(1)
  // For a day that does not exist, croner searches until its stack overflows. So plain days are checked here.
  if (starDOW && !isOther) {
    return longestMonths.some((days, at) => month[at] === 1 && day.slice(0, days).includes(1))
  }
  try {
    return walls(0) !== null
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/** Finds the invalid field by parsing each field alone. */
function unreadable(name: string, line: string, error: unknown): SignalboxError {
  const fields = line.trim().split(/\s+/)
  if (fields.length !== 5 && fields.length !== 6) {
    return refusal(
      name,
      `${name} ${show(line)} has ${fields.length === 1 ? 'one field' : `${fields.length} fields`}; a cron line has five (minute, hour, day of the month, month, day of the week), or six with the second first.`,
      { cause: error },
    )
  }
  const at = fields.findIndex(
    (field, index) => !isReadable(fields.map((_, other) => (other === index ? field : '*'))),
  )
  if (at === -1)
    return refusal(name, `${name} ${show(line)} cannot be read as a cron line.`, { cause: error })
  const field = fieldNames[at + fieldNames.length - fields.length]!
  return refusal(
    name,
    `${name} ${show(line)} has ${show(fields[at])} as its ${field}, which cannot be read.`,
    {
      cause: error,
      field,
    },
  )
}

function isReadable(fields: readonly string[]): boolean {
  try {
    new CronPattern(fields.join(' '), 'UTC', { mode })
    return true
  } catch {
    return false
  }
}

function refusal(
  name: string,
  message: string,
  { cause, field }: { readonly cause?: unknown; readonly field?: string } = {},
): SignalboxError {
  return new SignalboxError('invalid_argument', message, {
    ...(cause === undefined ? {} : { cause }),
    details: { option: name, ...(field === undefined ? {} : { field }) },
  })
}

function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other
  return Math.min(one, other)
}
