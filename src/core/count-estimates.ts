/** Counts of the jobs of a queue below this are exact. */
export const exactBelow = 10_000

/** A count of a queue as people read it: with "~" before an estimate. */
export function showCount(
  { approximate }: { readonly approximate: boolean },
  count: number,
  show: (count: number) => string = String,
): string {
  return approximate && count >= exactBelow ? `~${show(count)}` : show(count)
}
