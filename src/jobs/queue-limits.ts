import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import { duration, onlyKeys, show, whole } from '../core/options.ts'

/**
 * How much of a queue may run at once, and how much may start in a time: of the whole queue, and of each key that its
 * jobs carry (a tenant, an account). What counts is an attempt: from its claim until its end is written or its lease is
 * over by the store's clock. A store holds to it when it claims, so no process can go past it, and nothing has to be
 * given back by one that died.
 */
export interface QueueLimits extends Limit {
  /** The same for each `limitKey`; jobs without one are counted for the queue alone. */
  readonly perKey: Limit | null
}

export interface Limit {
  /** So many run at once; null: any number. */
  readonly concurrency: number | null
  readonly rate: Rate | null
}

/** So many starts in any span of that length. */
export interface Rate {
  readonly count: number
  readonly perMs: number
}

/** Limits as they are given. Every field may be left out; at least one must be there. */
export interface LimitOptions extends OneLimitOptions {
  readonly perKey?: OneLimitOptions | null | undefined
}

export interface OneLimitOptions {
  readonly concurrency?: number | null | undefined
  readonly rate?: { readonly count: number; readonly perMs: Duration } | null | undefined
}

const most = 1_000_000
const longestMs = 86_400_000

/** Checks limits and makes them whole. Throws `invalid_argument` for limits of 0, which would hold everything up for ever. */
export function resolveLimits(name: string, options: unknown): QueueLimits {
  const { perKey, ...own } = known(name, options, ['concurrency', 'rate', 'perKey']) as LimitOptions
  const limits = {
    ...resolveOne(name, own),
    perKey:
      perKey === undefined || perKey === null
        ? null
        : resolveOne(`${name}.perKey`, known(`${name}.perKey`, perKey, ['concurrency', 'rate'])),
  }
  for (const [where, limit] of [
    [name, limits],
    [`${name}.perKey`, limits.perKey],
  ] as const) {
    const isEmpty = limit !== null && limit.concurrency === null && limit.rate === null
    if (isEmpty && !(where === name && limits.perKey !== null)) throw limitsNothing(where)
  }
  return limits
}

function known(name: string, value: unknown, keys: readonly string[]): OneLimitOptions {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be limits such as { concurrency: 10 } or { rate: { count: 100, perMs: '1m' } }, not ${show(value)}.`,
      { details: { option: name } },
    )
  }
  onlyKeys(name, value, keys)
  return value
}

function resolveOne(name: string, { concurrency, rate }: OneLimitOptions): Limit {
  return {
    concurrency:
      concurrency === undefined || concurrency === null
        ? null
        : whole(`${name}.concurrency`, concurrency, { min: 1, max: most }),
    rate: rate === undefined || rate === null ? null : resolveRate(`${name}.rate`, rate),
  }
}

function resolveRate(name: string, rate: { readonly count: number; readonly perMs: Duration }): Rate {
  if (typeof rate !== 'object') {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a count in a time, such as { count: 100, perMs: '1m' }, not ${show(rate)}.`,
      { details: { option: name } },
    )
  }
  onlyKeys(name, rate, ['count', 'perMs'])
  return {
    count: whole(`${name}.count`, rate.count, { min: 1, max: most }),
    perMs: duration(`${name}.perMs`, rate.perMs, { min: 10, max: longestMs }),
  }
}

function limitsNothing(name: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `${name} limits nothing: give concurrency, rate or perKey, or null to lift the limits.`,
    { details: { option: name } },
  )
}
