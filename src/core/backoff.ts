import { real, whole, withDefaults } from './options.ts'

/** How long to wait before trying again; every field has a default where it is used. */
export interface Backoff {
  /** The wait after the first failure. */
  readonly baseMs: number
  /** By how much each further failure multiplies it. */
  readonly factor: number
  /** The longest wait, jitter included. */
  readonly maxMs: number
  /** The share by which a wait may differ from its plan, up or down, so that many do not return at once. */
  readonly jitter: number
}

/** The wait after the nth failure in a row (1 is the first): `x(1 ± jitter)`, `x = min(maxMs, baseMs · factorⁿ⁻¹)`. */
export function backoffMs(
  { baseMs, factor, maxMs, jitter }: Backoff,
  failureCount: number,
  random: () => number = Math.random,
): number {
  // The power may be Infinity, which `min` brings down; 0 · Infinity would be NaN, so a base of 0 is 0 by itself.
  const planned = baseMs === 0 ? 0 : Math.min(maxMs, baseMs * factor ** (failureCount - 1))
  return Math.min(maxMs, planned * (1 + jitter * (2 * random() - 1)))
}

/** Checks a back-off and makes it whole. */
export function resolveBackoff(
  name: string,
  given: Partial<Backoff> | undefined,
  defaults: Backoff,
): Backoff {
  const { baseMs, factor, maxMs, jitter } = withDefaults(name, given, defaults)
  return Object.freeze({
    baseMs: whole(`${name}.baseMs`, baseMs),
    factor: real(`${name}.factor`, factor, { min: 1, max: 1_000 }),
    maxMs: whole(`${name}.maxMs`, maxMs),
    jitter: real(`${name}.jitter`, jitter, { max: 1 }),
  })
}
