/**
 * Sorts many timers by due time, equal ones by the order in which they were set.
 *
 * They are spread over buckets by their share of the span between the first and the last, so that a bucket of times that
 * lie evenly holds a handful, and a million cost two walks and not twenty. Times that crowd together fill one bucket,
 * which is sorted by merging: whatever the times are, it never takes longer than n log n.
 */

/** Timers side by side: when, and whose. */
export interface Timers {
  readonly dueAt: Float64Array
  readonly indexes: Uint32Array
}

/** So many fall into a bucket if times lie evenly. */
const perBucket = 4
/** Up to here inserting is quicker than merging. */
const few = 24

/** The same timers in order; those that are given are overwritten. `orderOf` says by key index when each was set. */
export function sortByTime(timers: Timers, orderOf: Float64Array): Timers {
  const sorted = timersFor(timers.dueAt.length)
  const ends = spread(timers, sorted)
  let from = 0
  for (let bucket = 0; bucket < ends.length; bucket++) {
    const end = ends[bucket] as number
    sortPart(sorted, timers, orderOf, from, end)
    from = end
  }
  return sorted
}

export function timersFor(length: number): Timers {
  return { dueAt: new Float64Array(length), indexes: new Uint32Array(length) }
}

/** Copies timers bucket by bucket; answers where each bucket ends. */
function spread(from: Timers, to: Timers): Uint32Array {
  const { dueAt, indexes } = from
  const lastBucket = Math.ceil(dueAt.length / perBucket)
  let earliest = Number.POSITIVE_INFINITY
  let latest = Number.NEGATIVE_INFINITY
  for (let at = 0; at < dueAt.length; at++) {
    const time = dueAt[at] as number
    if (time < earliest) earliest = time
    if (time > latest) latest = time
  }
  // Where there is no span, or none that can be computed with, this is no finite number or 0, and all go to bucket 0.
  const scale = lastBucket / (latest - earliest)
  const positions = new Uint32Array(lastBucket + 2)
  for (let at = 0; at < dueAt.length; at++) {
    const bucket = (((dueAt[at] as number) - earliest) * scale) | 0
    positions[bucket + 1] = (positions[bucket + 1] as number) + 1
  }
  for (let bucket = 1; bucket < positions.length; bucket++) {
    positions[bucket] = (positions[bucket] as number) + (positions[bucket - 1] as number)
  }
  for (let at = 0; at < dueAt.length; at++) {
    const time = dueAt[at] as number
    const bucket = ((time - earliest) * scale) | 0
    const position = positions[bucket] as number
    positions[bucket] = position + 1
    to.dueAt[position] = time
    to.indexes[position] = indexes[at] as number
  }
  // Each bucket's position has moved on from where it begins to where it ends.
  return positions
}

/** Sorts a part by merging its halves; what is in order already is left alone. */
function sortPart(timers: Timers, spare: Timers, orderOf: Float64Array, from: number, end: number): void {
  if (end - from <= few) {
    insertAll(timers, orderOf, from, end)
    return
  }
  const middle = (from + end) >>> 1
  sortPart(timers, spare, orderOf, from, middle)
  sortPart(timers, spare, orderOf, middle, end)
  if (comesBefore(timers, middle, timers, middle - 1, orderOf))
    merge(timers, spare, orderOf, from, middle, end)
}

function insertAll(timers: Timers, orderOf: Float64Array, from: number, end: number): void {
  const { dueAt, indexes } = timers
  for (let next = from + 1; next < end; next++) {
    const time = dueAt[next] as number
    const index = indexes[next] as number
    let position = next
    for (; position > from; position--) {
      const other = dueAt[position - 1] as number
      if (other < time) break
      const otherIndex = indexes[position - 1] as number
      if (other === time && (orderOf[otherIndex] as number) < (orderOf[index] as number)) break
      dueAt[position] = other
      indexes[position] = otherIndex
    }
    dueAt[position] = time
    indexes[position] = index
  }
}

function merge(
  timers: Timers,
  spare: Timers,
  orderOf: Float64Array,
  from: number,
  middle: number,
  end: number,
): void {
  // The left half steps aside, and what is written never overtakes what is still to be read on the right.
  for (let at = from; at < middle; at++) copyTimer(timers, at, spare, at)
  let left = from
  let right = middle
  for (let position = from; left < middle; position++) {
    if (right < end && comesBefore(timers, right, spare, left, orderOf))
      copyTimer(timers, right++, timers, position)
    else copyTimer(spare, left++, timers, position)
  }
}

function comesBefore(a: Timers, atA: number, b: Timers, atB: number, orderOf: Float64Array): boolean {
  const timeA = a.dueAt[atA] as number
  const timeB = b.dueAt[atB] as number
  if (timeA !== timeB) return timeA < timeB
  return (orderOf[a.indexes[atA] as number] as number) < (orderOf[b.indexes[atB] as number] as number)
}

function copyTimer(from: Timers, at: number, to: Timers, position: number): void {
  to.dueAt[position] = from.dueAt[at] as number
  to.indexes[position] = from.indexes[at] as number
}
