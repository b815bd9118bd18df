/**
 * Fewer points with the same shape: a canvas has limited width, and a mean would hide the peak that an operator looks
 * for. Each bucket of instants gives the least and the greatest value of each line, in the order in which they came.
 *
 *     values 1 9 2 | 3 3 0    two buckets    1 9 | 3 0
 */
export function downsample(
  times: readonly number[],
  lines: readonly (readonly (number | null)[])[],
  mostPoints: number,
): readonly [times: readonly number[], lines: readonly (readonly (number | null)[])[]] {
  if (times.length <= mostPoints) return [times, lines]
  const size = Math.ceil(times.length / Math.max(1, Math.floor(mostPoints / 2)))
  const starts = Array.from({ length: Math.ceil(times.length / size) }, (_, nth) => nth * size)
  return [
    starts.flatMap((start) => [times[start]!, times[middleOf(start, size, times.length)]!]),
    lines.map((values) => starts.flatMap((start) => extremes(values.slice(start, start + size)))),
  ]
}

/** Where the second point of a bucket stands: never on the first, unless the bucket has one instant. */
function middleOf(start: number, size: number, length: number): number {
  return Math.min(start + Math.ceil(size / 2), length - 1)
}

function extremes(values: readonly (number | null)[]): readonly [number | null, number | null] {
  let least = -1
  let greatest = -1
  for (const [nth, value] of values.entries()) {
    if (value === null) continue
    if (least === -1 || value < values[least]!) least = nth
    if (greatest === -1 || value >= values[greatest]!) greatest = nth
  }
  if (least === -1) return [null, null]
  const [first, second] = least < greatest ? [least, greatest] : [greatest, least]
  return [values[first]!, values[second]!]
}

/** The place of the instant that is nearest; -1 when there is none. */
export function nearest(times: readonly number[], at: number): number {
  let low = 0
  let high = times.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (times[middle]! < at) low = middle + 1
    else high = middle
  }
  return low > 0 && at - times[low - 1]! < times[low]! - at ? low - 1 : Math.min(low, times.length - 1)
}
