import { Cron, CronPattern } from 'croner'
import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { newestByNext, type Slots } from './schedule-slots.ts'
import { createZone } from './time-zone.ts'

/**
 * The slots of a cron line in a time zone. croner reads the line and finds the wall times it names, as if clocks never
 * changed; the zone says when those are.
 *
 * A line of certain hours runs once for each wall time it names: an hour that clocks repeat gives no second run, and a
 * wall time that they leave out runs at the first instant after. A line that runs in every hour of the day means spans
 * of time, not times of day: it runs through the repeated hour as through any other, and where an hour is left out it
 * runs when it would have, had nobody changed the clocks.
 */
export function createCron(name: string, line: unknown, timeZone: unknown): Slots {
  const zone = createZone(name.replace(/cron$/, 'timeZone'), timeZone)
  const { walls, isHourly } = readLine(name, line)

  function next(after: number): number | null {
    return isHourly ? earlier(nextShown(after), nextInChange(after)) : nextNamed(after)
  }

  /** Each wall time once: the first time it is shown, or the first instant after it was left out. */
  function nextNamed(after: number): number | null {
    for (let wall = walls(zone.wallAt(after)); wall !== null; ) {
      const slot = zone.instantOf(wall)
      if (slot > after) return slot
      wall = walls(lastShownAgain(after, wall))
    }
    return null
  }

  /** The same without those that are left out. */
  function nextShown(after: number): number | null {
    for (let wall = walls(zone.wallAt(after)); wall !== null; ) {
      const slot = zone.instantOf(wall)
      const shown = zone.wallAt(slot)
      if (shown === wall && slot > after) return slot
      wall = walls(shown === wall ? lastShownAgain(after, wall) : shown - 1)
    }
    return null
  }

  /** The clocks show it for the second time, and so they do with all up to the one that this answers. */
  function lastShownAgain(after: number, wall: number): number {
    return Math.max(wall, (zone.changeNear(after)?.before ?? wall) - 1)
  }

  /** The next one of those that clocks show again, or left out, each at its other time. */
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
  /** The first wall time after that one that the line names; null: there is none. */
  walls(after: number): number | null
  /** It runs in every hour of the day. */
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
      `${name} ${show(line)} names no day that ever comes: look at its day of the month and its month.`,
      { field: 'day of the month' },
    )
  }
  return { walls, isHourly: pattern.hour.every((isNamed) => isNamed === 1) }
}

const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Whether it names a day that there is. */
function everComes(pattern: CronPattern, walls: Line['walls']): boolean {
  const { day, month, starDOW, lastDayOfMonth, nearestWeekdays } = pattern
  const isOther = lastDayOfMonth || nearestWeekdays.includes(1)
  // croner looks for a day that never comes until its stack is full, so that is found by itself.
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

/** Says which field cannot be read, by trying each alone. */
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
