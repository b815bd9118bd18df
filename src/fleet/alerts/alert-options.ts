import type { Duration } from '../../core/duration.ts'
import { duration, withDefaults } from '../../core/options.ts'
import type { AlertLimits } from './alert-rules.ts'

/** When a server alerts of its own problems. */
export interface AlertOptions {
  /** How long the oldest ready job of a queue may wait. @default 300_000 */
  readonly behindMs?: Duration | undefined
  /** The same while no live worker claims from the queue. @default 60_000 */
  readonly noWorkerMs?: Duration | undefined
  /** How late a schedule may run. @default 120_000 */
  readonly scheduleMs?: Duration | undefined
  /** How long a request may wait for a lock. @default 600_000 */
  readonly lockMs?: Duration | undefined
  /** How long the store may take to answer. @default 2_000 */
  readonly storeMs?: Duration | undefined
  /** How often a server checks. @default 15_000 */
  readonly everyMs?: Duration | undefined
}

export interface ResolvedAlertOptions extends AlertLimits {
  readonly everyMs: number
}

export const alertDefaults: ResolvedAlertOptions = {
  behindMs: 300_000,
  noWorkerMs: 60_000,
  scheduleMs: 120_000,
  lockMs: 600_000,
  storeMs: 2_000,
  everyMs: 15_000,
}

/** Throws `invalid_argument`. */
export function resolveAlertOptions(name: string, options: AlertOptions | undefined): ResolvedAlertOptions {
  const given = withDefaults<Record<keyof AlertOptions, Duration>>(name, options, alertDefaults)
  const entries = Object.entries(given).map(([key, value]) => [
    key,
    duration(`${name}.${key}`, value, { min: 1 }),
  ])
  return Object.fromEntries(entries) as unknown as ResolvedAlertOptions
}
