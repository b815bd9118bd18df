import type { ContentionClient } from '../../../src/http/client/index.ts'

export type Snapshot = Awaited<ReturnType<ContentionClient['snapshot']>>
export type Cell = Snapshot['matrix'][number]

/** The matrix as a table: rows wait, columns are waited on, both the greatest first. */
export interface HeatMap {
  readonly holders: readonly string[]
  readonly rows: readonly {
    readonly waiter: string
    readonly ms: number
    /** One for each holder; undefined: none was waited. */
    readonly cells: readonly (Cell | undefined)[]
  }[]
  /** The least and the most of all cells. */
  readonly low: number
  readonly high: number
}

/** Makes the table with a maximum number of rows and columns. */
export function heatMapOf({ matrix, holders: ranked }: Snapshot, most: number): HeatMap {
  const byWaiter = new Map<string, Map<string, Cell>>()
  for (const cell of matrix) {
    const row = byWaiter.get(cell.waiter) ?? new Map<string, Cell>()
    byWaiter.set(cell.waiter, row.set(cell.holder, cell))
  }
  const holders = ranked.slice(0, most).map(({ holder }) => holder)
  const rows = [...byWaiter]
    .map(([waiter, row]) => ({
      waiter,
      ms: [...row.values()].reduce((sum, { ms }) => sum + ms, 0),
      cells: holders.map((holder) => row.get(holder)),
    }))
    .sort((a, b) => b.ms - a.ms)
    .slice(0, most)
  const shown = rows.flatMap(({ cells }) => cells.flatMap((cell) => cell?.ms ?? []))
  return {
    holders,
    rows,
    low: shown.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    high: shown.reduce((a, b) => Math.max(a, b), 0),
  }
}

/** How dark, from 0 to 1: by powers of ten, for few cells are long and most are short. */
export function heatOf(ms: number, high: number): number {
  return high <= 0 ? 0 : Math.log1p(ms) / Math.log1p(high)
}

/** Where a span stands on a scale of powers of ten, from 0.01 ms to `high`. */
export function placeOf(ms: number, high: number): number {
  const least = 0.01
  if (ms <= least || high <= least) return 0
  return Math.min(1, Math.log(ms / least) / Math.log(high / least))
}
