import type { Labels } from './metric-series.ts'

/**
 * Lines of a metric, by names that people choose. There are never more than `limit`, and one for all `other` names;
 * when it is full, lines that nobody used for an hour make room.
 */
export interface CappedLines<Cells> {
  /** The cells of these names, made when they are new. */
  find(names: readonly string[], now: number): Cells
  /** Every line there is, with its labels. */
  all(): readonly { readonly labels: Labels; readonly cells: Cells }[]
}

export interface CappedLinesOptions<Cells> {
  readonly labelNames: readonly string[]
  readonly limit: number
  readonly create: () => Cells
}

export const idleMs = 3_600_000
/** How often a full set is looked through for idle lines. */
const sweepMs = 60_000

export function createCappedLines<Cells>(options: CappedLinesOptions<Cells>): CappedLines<Cells> {
  const { labelNames, limit, create } = options
  const lines = new Map<string, { readonly labels: Labels; readonly cells: Cells; usedAt: number }>()
  let other: { readonly labels: Labels; readonly cells: Cells } | undefined
  let sweptAt = Number.NEGATIVE_INFINITY

  function sweep(now: number): void {
    if (now - sweptAt < sweepMs) return
    sweptAt = now
    for (const [key, { usedAt }] of lines) if (now - usedAt > idleMs) lines.delete(key)
  }

  const labelsOf = (names: readonly string[]): Labels =>
    Object.fromEntries(labelNames.map((label, index) => [label, names[index]!]))

  return {
    find(names, now) {
      // No name holds a control character.
      const key = names.join('\n')
      let line = lines.get(key)
      if (line === undefined) {
        if (lines.size >= limit) sweep(now)
        if (lines.size >= limit) {
          other ??= { labels: labelsOf(labelNames.map(() => 'other')), cells: create() }
          return other.cells
        }
        line = { labels: labelsOf(names), cells: create(), usedAt: now }
        lines.set(key, line)
      }
      line.usedAt = now
      return line.cells
    },
    all: () => [...lines.values(), ...(other === undefined ? [] : [other])],
  }
}
