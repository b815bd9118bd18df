/** What stands by key index in plain arrays. */

/** Makes an array long enough for a key index; writing far beyond its end would make it slow. */
export function extend<V>(values: (V | undefined)[], index: number): void {
  while (values.length <= index) values.push(undefined)
}

/** The same values, after key indexes were renumbered. */
export function renumber<V>(values: readonly (V | undefined)[], newIndexes: Uint32Array): (V | undefined)[] {
  const moved: (V | undefined)[] = []
  values.forEach((value, oldIndex) => {
    if (value === undefined) return
    const index = newIndexes[oldIndex] as number
    extend(moved, index)
    moved[index] = value
  })
  return moved
}
