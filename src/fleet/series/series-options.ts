import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { duration, onlyKeys } from '../../core/options.ts'
import type { SeriesKeep } from '../rules/index.ts'

/** How long counts and times of jobs are kept. */
export interface SeriesOptions {
  /** The retention by minute. @default '48h' */
  readonly minutesMs?: Duration | undefined
  /** The retention by hour. @default '90d' */
  readonly hoursMs?: Duration | undefined
}

const day = 86_400_000
export const seriesDefaults: SeriesKeep = { minutesMs: 2 * day, hoursMs: 90 * day }

/** Returns undefined if counting is off. Throws `invalid_argument`. */
export function resolveSeriesOptions(
  name: string,
  options: boolean | SeriesOptions | undefined,
): SeriesKeep | undefined {
  if (options === false) return undefined
  if (options === undefined || options === true) return seriesDefaults
  if (typeof options !== 'object' || options === null)
    throw new SignalboxError('invalid_argument', `${name} must be true, false or { minutesMs, hoursMs }.`, {
      details: { option: name },
    })
  onlyKeys(name, options, ['minutesMs', 'hoursMs'])
  const { minutesMs = seriesDefaults.minutesMs, hoursMs = seriesDefaults.hoursMs } = options
  const range = { min: 3_600_000, max: 3_650 * day }
  return {
    minutesMs: duration(`${name}.minutesMs`, minutesMs, range),
    hoursMs: duration(`${name}.hoursMs`, hoursMs, range),
  }
}
