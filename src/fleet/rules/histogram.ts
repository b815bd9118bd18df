/**
 * A distribution of times from a millisecond to a day. It has six bins for each power of ten, so that a percentile is
 * right within a fifth. The text of a histogram has its sum and the bins that are not empty: `1234 3:10 7:2`.
 */
export class Histogram {
  sumMs = 0
  /** The number of observations. */
  count = 0
  /** Allocated at the first observation. */
  #bins: number[] | undefined

  observe(ms: number, times = 1): void {
    const span = ms > 0 ? ms : 0
    this.#bins ??= new Array<number>(binCount).fill(0)
    this.#bins[binOf(span)]! += times
    this.sumMs += span * times
    this.count += times
  }

  get isEmpty(): boolean {
    return this.count === 0
  }

  /** Empties the histogram for reuse. */
  clear(): void {
    if (this.count === 0) return
    this.#bins!.fill(0)
    this.sumMs = 0
    this.count = 0
  }

  add(other: Histogram): void {
    if (other.count === 0) return
    this.#bins ??= new Array<number>(binCount).fill(0)
    for (let at = 0; at < binCount; at++) this.#bins[at]! += other.#bins![at]!
    this.sumMs += other.sumMs
    this.count += other.count
  }

  /** The times that these shares of the observations did not exceed. Shares rise; there must be an observation. */
  percentiles(shares: readonly number[]): readonly number[] {
    const { count } = this
    const bins = this.#bins!
    let at = 0
    let before = 0
    return shares.map((share) => {
      const wanted = Math.max(1, Math.ceil(count * share))
      while (before + bins[at]! < wanted) before += bins[at++]!
      const from = at === 0 ? 0 : boundsMs[at - 1]!
      const to = boundsMs[at] ?? from
      return Math.round((from + ((to - from) * (wanted - before - 0.5)) / bins[at]!) * 10) / 10
    })
  }

  /** The number of observations up to each of these bounds, which are some of `boundsMs`. */
  within(bounds: readonly number[]): readonly number[] {
    const bins = this.#bins
    if (bins === undefined) return bounds.map(() => 0)
    let sum = 0
    let next = 0
    return bounds.map((bound) => {
      while (next < boundsMs.length && boundsMs[next]! <= bound) sum += bins[next++]!
      return sum
    })
  }

  toText(): string {
    if (this.count === 0) return ''
    let text = String(Math.round(this.sumMs))
    for (let at = 0; at < binCount; at++) if (this.#bins![at]! > 0) text += ` ${at}:${this.#bins![at]}`
    return text
  }

  /**
   * Adds the result of `toText`, which is in `text` from `at` to `end`. A series of two days has thousands of such
   * texts, so this method parses by characters, without splitting.
   */
  addText(text: string, at = 0, end: number = text.length): void {
    if (at >= end) return
    this.#bins ??= new Array<number>(binCount).fill(0)
    const bins = this.#bins
    let bin = -1
    let number = 0
    for (let index = at; index <= end; index++) {
      const code = index === end ? space : text.charCodeAt(index)
      if (code === colon) {
        bin = number
        number = 0
      } else if (code === space) {
        // The first number is the sum.
        if (bin === -1) this.sumMs += number
        else if (bin < binCount) {
          bins[bin]! += number
          this.count += number
        }
        bin = binCount
        number = 0
      } else number = number * 10 + (code - zero)
    }
  }
}

const [space, colon, zero] = [32, 58, 48]

/** The upper bounds of the bins, in milliseconds. One more bin counts longer times. */
export const boundsMs: readonly number[] = [
  ...[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((ten) =>
    [1, 1.5, 2, 3, 5, 7].map((part) => part * ten),
  ),
  100_000_000,
]
const binCount = boundsMs.length + 1

/** Finds the bin by bisection, because it runs at the end of each handler. */
function binOf(ms: number): number {
  let low = 0
  let high = boundsMs.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (boundsMs[middle]! < ms) low = middle + 1
    else high = middle
  }
  return low
}
