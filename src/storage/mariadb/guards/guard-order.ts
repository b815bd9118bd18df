interface Key {
  readonly space: string
  readonly key: string
}

/** All statements on several guards lock them in one order, so that no two wait for each other. */
export function inKeyOrder(a: Key, b: Key): number {
  if (a.space !== b.space) return a.space < b.space ? -1 : 1
  if (a.key === b.key) return 0
  return a.key < b.key ? -1 : 1
}
