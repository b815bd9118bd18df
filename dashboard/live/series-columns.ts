import type { MetricsClient } from '../../src/http/client/index.ts'

export type Series = Awaited<ReturnType<MetricsClient['series']>>
export type SeriesPoint = Series['items'][number]['points'][number]

type CountName = 'added' | 'completed' | 'failed' | 'dead'

/** Points as columns over an even grid: a step that is not there had nothing in it. */
export interface Columns {
  readonly times: readonly number[]
  readonly cells: readonly (SeriesPoint | undefined)[]
  /** Per second; several are added up. */
  rate(...names: readonly CountName[]): readonly number[]
  column(read: (point: SeriesPoint) => number | null | undefined): readonly (number | null)[]
}

/** Processes write their counts every ten seconds: a step that has just begun would look like a drop. */
const leastUnderWayMs = 120_000

export function columnsOf({ now, from, to, stepMs, items }: Series): Columns {
  const points = new Map(items[0]?.points.map((point) => [point.at, point]))
  const times: number[] = []
  const lengths: number[] = []
  for (let at = from; at < to; at += stepMs) {
    const lengthMs = Math.min(stepMs, now - at)
    if (lengthMs < stepMs && lengthMs < leastUnderWayMs) break
    times.push(at)
    lengths.push(lengthMs / 1_000)
  }
  const cells = times.map((at) => points.get(at))
  return {
    times,
    cells,
    rate: (...names) =>
      cells.map((point, nth) => names.reduce((sum, name) => sum + (point?.[name] ?? 0), 0) / lengths[nth]!),
    column: (read) => cells.map((point) => (point === undefined ? null : (read(point) ?? null))),
  }
}

/** When each queue had work last, as the end of its last step. */
export function lastActivity({ now, stepMs, items }: Series): ReadonlyMap<string, number> {
  return new Map(
    items.flatMap(({ queue, points }) => {
      const last = points.findLast((point) => point.added + point.started + point.completed + point.dead > 0)
      if (queue === null || last === undefined) return []
      return [[queue, Math.min(now, last.at + stepMs)] as const]
    }),
  )
}

/** By minutes where these tell, else by hours: then it was before the minutes began. */
export function mergeActivity(
  byHour: ReadonlyMap<string, number>,
  byMinute: ReadonlyMap<string, number>,
  minutesFrom: number,
): ReadonlyMap<string, number> {
  const before = Array.from(byHour, ([queue, at]) => [queue, Math.min(at, minutesFrom)] as const)
  return new Map([...before, ...byMinute])
}
