/**
 * Puts the worst of each kind first, then the second of each, and so on: a hundred problems of one kind hide none of
 * another.
 */
export function eachKindFirst<One extends { readonly kind: string }>(all: readonly One[]): readonly One[] {
  const counts = new Map<string, number>()
  const ranked = all.map((one) => {
    const rank = counts.get(one.kind) ?? 0
    counts.set(one.kind, rank + 1)
    return { one, rank }
  })
  return ranked.toSorted((a, b) => a.rank - b.rank).map(({ one }) => one)
}
