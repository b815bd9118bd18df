/** Several measurements of one thing as one figure: the median, and how far they lay apart. */
export interface Summary {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The middle value; of an even number, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('There is no median of nothing.')
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Median and spread (smallest to largest) of the rounds. */
export function summarize(values: readonly number[]): Summary {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}

/** How far `own` is ahead of `other`: above 1 is better, whichever way the unit runs. */
export function ratio(own: number, other: number, better: 'higher' | 'lower'): number {
  return better === 'higher' ? own / other : other / own
}

/** The best of several figures, by the direction of the unit. */
export function best(values: readonly number[], better: 'higher' | 'lower'): number | undefined {
  if (values.length === 0) return undefined
  return better === 'higher' ? Math.max(...values) : Math.min(...values)
}
