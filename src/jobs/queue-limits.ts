import type { Duration } from '../core/duration.ts'
import { invalidArgument, type SignalboxError } from '../core/errors.ts'
import { duration, onlyKeys, refuse, whole } from '../core/options.ts'

/**
 * How many jobs of a queue may run at once, and how many may start in a period: of the whole queue, and of each
 * `limitKey` (a tenant, an account). An attempt counts from its claim until its end is written or its lease expires by
 * the store's clock. The store enforces limits when it claims, so no process can exceed them, and a process that died
 * returns nothing.
 */
export interface QueueLimits extends Limit {
  /** The same for each `limitKey`; jobs without one are counted for the queue alone. */
  readonly perKey: Limit | null
}

export interface Limit {
  /** How many may run at once; null: any number. */
  readonly concurrency: number | null
  readonly rate: Rate | null
}

/** At most `count` starts in any span of `perMs`. */
export interface Rate {
  readonly count: number
  readonly perMs: number
}

/** Limits as users give them, with at least one field. */
export interface LimitOptions extends OneLimitOptions {
  readonly perKey?: OneLimitOptions | null | undefined
}

export interface OneLimitOptions {
  readonly concurrency?: number | null | undefined
  readonly rate?: { readonly count: number; readonly perMs: Duration } | null | undefined
}

const maxCount = 1_000_000
const maxPerMs = 86_400_000

/**
 * Checks limits and completes them. Throws `invalid_argument`, also for limits of 0, which would block the queue for
 * ever.
 */
export function resolveLimits(name: string, options: unknown): QueueLimits {
  const { perKey, ...own } = checkedOptions(name, options, ['concurrency', 'rate', 'perKey']) as LimitOptions
  const queue = resolveOne(name, own)
  if (perKey === undefined || perKey === null) {
    if (isEmpty(queue)) throw limitsNothing(name)
    return { ...queue, perKey: null }
  }
  const keyName = `${name}.perKey`
  const key = resolveOne(keyName, checkedOptions(keyName, perKey, ['concurrency', 'rate']))
  if (isEmpty(key)) throw limitsNothing(keyName)
  return { ...queue, perKey: key }
}

function isEmpty({ concurrency, rate }: Limit): boolean {
  return concurrency === null && rate === null
}

function checkedOptions(name: string, value: unknown, keys: readonly string[]): OneLimitOptions {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse(name, "limits such as { concurrency: 10 } or { rate: { count: 100, perMs: '1m' } }", value)
  onlyKeys(name, value, keys)
  return value
}

function resolveOne(name: string, { concurrency, rate }: OneLimitOptions): Limit {
  return {
    concurrency:
      concurrency === undefined || concurrency === null
        ? null
        : whole(`${name}.concurrency`, concurrency, { min: 1, max: maxCount }),
    rate: rate === undefined || rate === null ? null : resolveRate(`${name}.rate`, rate),
  }
}

function resolveRate(name: string, rate: { readonly count: number; readonly perMs: Duration }): Rate {
  if (typeof rate !== 'object') refuse(name, "a count in a time, such as { count: 100, perMs: '1m' }", rate)
  onlyKeys(name, rate, ['count', 'perMs'])
  return {
    count: whole(`${name}.count`, rate.count, { min: 1, max: maxCount }),
    perMs: duration(`${name}.perMs`, rate.perMs, { min: 10, max: maxPerMs }),
  }
}

function limitsNothing(name: string): SignalboxError {
  return invalidArgument(
    `${name} limits nothing: give concurrency, rate or perKey, or null to lift the limits.`,
    name,
  )
}
