/** What stands by seat in plain arrays. */

/** Makes an array long enough for a seat; writing far beyond its end would make it slow. */
export function extend<V>(values: (V | undefined)[], seat: number): void {
  while (values.length <= seat) values.push(undefined)
}

/** The same values, after the seats were numbered anew. */
export function renumber<V>(values: readonly (V | undefined)[], newSeats: Uint32Array): (V | undefined)[] {
  const moved: (V | undefined)[] = []
  values.forEach((value, oldSeat) => {
    if (value === undefined) return
    const seat = newSeats[oldSeat] as number
    extend(moved, seat)
    moved[seat] = value
  })
  return moved
}
