/**
 * Counts durations in fixed memory: 1,024 buckets, 32 for each doubling, from a tenth of a microsecond to nearly two
 * hours. So a percentile is within 2 % of the exact one. A longer duration counts in the last bucket; the maximum is
 * kept exactly.
 */
export class Histogram {
  /** Not Uint32: at 100,000 records a second, a bucket of 32 bits overflows after half a day. */
  readonly #buckets = new Float64Array(bucketCount)
  #count = 0
  #sumMs = 0
  #maxMs = 0

  /** Records a duration. A negative number, and NaN, count as 0. */
  record(ms: number): void {
    const value = ms > 0 ? ms : 0
    this.#buckets[bucketOf(value)]!++
    this.#count++
    this.#sumMs += value
    if (value > this.#maxMs) this.#maxMs = value
  }

  get count(): number {
    return this.#count
  }

  get sumMs(): number {
    return this.#sumMs
  }

  get maxMs(): number {
    return this.#maxMs
  }

  /** The value that this share of all values (0 to 1) does not exceed; 0 without values. */
  percentile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.#count))
    let seen = 0
    for (let index = 0; index < bucketCount; index++) {
      seen += this.#buckets[index]!
      if (seen >= rank) return Math.min(middleOf(index), this.#maxMs)
    }
    return this.#maxMs
  }

  /**
   * How many values are within each bound (rising milliseconds). Each count includes all lower values, as in
   * Prometheus.
   */
  countsWithin(boundsMs: readonly number[]): readonly number[] {
    let index = 0
    let seen = 0
    return boundsMs.map((boundMs) => {
      while (index < bucketCount && middleOf(index) <= boundMs) seen += this.#buckets[index++]!
      return seen
    })
  }
}

const bucketCount = 1_024
const unitsPerMs = 10_000
/** Each doubling has 2 ** fineBits buckets. Values below 2 * fineCount units have one bucket per unit. */
const fineBits = 5
const fineCount = 1 << fineBits
/** The limit of 32-bit arithmetic. */
const wide = 2 ** 31
const longest = 2 ** 36 - 1

function bucketOf(ms: number): number {
  const units = ms * unitsPerMs
  if (units < wide) return bucketOfUnits(units | 0, 0)
  return bucketOfUnits((Math.min(units, longest) / 64) | 0, 6)
}

/** `units` is the value shifted right by `shifted` bits. */
function bucketOfUnits(units: number, shifted: number): number {
  if (units < fineCount * 2) return units
  const shift = 31 - Math.clz32(units) - fineBits
  return ((shift + shifted) << fineBits) + (units >>> shift)
}

function middleOf(index: number): number {
  if (index < fineCount * 2) return index / unitsPerMs
  const shift = (index >>> fineBits) - 1
  const low = (fineCount + (index & (fineCount - 1))) * 2 ** shift
  return (low + 2 ** shift / 2) / unitsPerMs
}
