import { invalidArgument } from './errors.ts'

/**
 * Ids that sort by their time of creation: 26 characters of lower-case Crockford base32, safe in URLs, file names and keys.
 *
 *     01k9z3v8qe  0m4t  9wq3rb5c7xkd
 *     time        nth   random
 *     48 bits ms  20    60 bits
 *
 * Within one process ids strictly rise, however many a millisecond has and even when the clock steps back: the time
 * in an id never falls, and ids of one millisecond count up. The count starts at a random place in its lower half,
 * so it adds to the 60 random bits that keep ids of different processes apart; when it runs over, the time in the
 * id moves on one millisecond ahead of the clock.
 */

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const idPattern = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/
const maxTime = 2 ** 48 - 1
const maxCount = 2 ** 20 - 1

/** All pairs of two characters, so that an id is put together from ten bits at a time. */
const pairs: readonly string[] = Array.from(
  { length: 1024 },
  (_, bits) => alphabet.charAt(bits >> 5) + alphabet.charAt(bits & 31),
)

/** The options of a generator of ids. */
export interface IdsOptions {
  /** The wall clock, in epoch milliseconds. @default Date.now */
  readonly now?: () => number
}

/** Creates a separate generator of ids; most code uses `createId`. */
export function createIds({ now = Date.now }: IdsOptions = {}): () => string {
  // One call to the system's generator serves 512 ids: the call costs more than the bytes.
  const pool = new Uint16Array(512 * 8)
  let used = pool.length
  let time = -1
  let count = 0
  let prefix = ''

  function startMillisecond(ms: number, seed: number): void {
    time = ms
    prefix = encodeTime(ms)
    count = seed
  }

  return function createId(): string {
    if (used === pool.length) {
      crypto.getRandomValues(pool)
      used = 0
    }
    const seed = (pool[used]! << 3) | (pool[used + 1]! & 7)
    const reading = checkTime(now())
    if (reading > time) startMillisecond(reading, seed)
    else if (count < maxCount) count++
    else startMillisecond(checkTime(time + 1), seed)

    const at = used + 2
    used += 8
    return (
      prefix +
      pairs[count >> 10]! +
      pairs[count & 1023]! +
      pairs[pool[at]! & 1023]! +
      pairs[pool[at + 1]! & 1023]! +
      pairs[pool[at + 2]! & 1023]! +
      pairs[pool[at + 3]! & 1023]! +
      pairs[pool[at + 4]! & 1023]! +
      pairs[pool[at + 5]! & 1023]!
    )
  }
}

/** A new id, greater than every id this process made before it. */
export const createId: () => string = createIds()

/** Whether a value has the form of an id. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && idPattern.test(value)
}

/** The time in an id, in epoch milliseconds: when it was made, or a little later (see above). */
export function decodeIdTime(id: string): number {
  if (!isId(id)) throw invalidArgument('This is not an id of Signalbox.')
  let time = 0
  for (let i = 0; i < 10; i++) time = time * 32 + alphabet.indexOf(id.charAt(i))
  return time
}

function encodeTime(ms: number): string {
  let text = ''
  let rest = ms
  for (let i = 0; i < 5; i++) {
    text = pairs[rest % 1024]! + text
    rest = Math.floor(rest / 1024)
  }
  return text
}

function checkTime(ms: number): number {
  const whole = Math.floor(ms)
  if (whole >= 0 && whole <= maxTime) return whole
  throw invalidArgument(`The clock returned ${ms}; ids need epoch milliseconds from 0 to ${maxTime}.`)
}
