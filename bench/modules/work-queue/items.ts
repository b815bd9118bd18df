/** The items contestants handle: names as a controller has them, and delays that repeat from run to run. */

/** How many items the large cases queue, quick or not. */
export const million = 1_000_000

/** How many names the short cases go round over, and how many are queued before the consumer has its turn. */
export const burst = 100

/**
 * Distinct names, made for one use. Each is one flat string: a concatenation would be flattened, and so allocated,
 * inside the timed or weighed part. Its hash is not known yet, as with a key that was just made from an event.
 */
export function freshNames(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, at) => Buffer.from(`default/pod-${from + at}`).toString('latin1'))
}

/** The same pseudo-random delays for everyone: above 0 and up to `maxMs`. */
export function delays(count: number, maxMs: number): Float64Array {
  const found = new Float64Array(count)
  let state = 0x9e3779b9
  for (let at = 0; at < count; at++) {
    // mulberry32: small, seeded, and good enough to leave no order behind.
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    found[at] = ((((mixed ^ (mixed >>> 14)) >>> 0) + 1) / 2 ** 32) * maxMs
  }
  return found
}
