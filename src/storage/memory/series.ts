import {
  hourMs,
  isOfKind,
  keepTensMs,
  mergeRows,
  minuteMs,
  type SeriesKeep,
  type SeriesRow,
  seriesBounds,
  stepAt,
  tenMinutesMs,
} from '../../fleet/rules/index.ts'
import type { SeriesQuery, SeriesStore } from '../../fleet/series/series-store.ts'

/** Counts and times of jobs in one namespace. */
export class MemorySeries implements SeriesStore {
  readonly #now: () => number
  /** By minute, source, queue and kind. */
  readonly #parts = new Map<string, SeriesRow>()
  readonly #steps = new Map<number, readonly SeriesRow[]>([
    [minuteMs, []],
    [tenMinutesMs, []],
    [hourMs, []],
  ])
  #totals: readonly SeriesRow[] = []
  #tensUntil = 0
  #hoursUntil = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async now(): Promise<number> {
    return this.#now()
  }

  async write(source: string, rows: readonly SeriesRow[]): ReturnType<SeriesStore['write']> {
    const now = this.#now()
    const open = rows.filter(({ bucketAt }) => bucketAt > now - minuteMs - seriesBounds.openMs)
    for (const row of open)
      this.#parts.set([row.bucketAt, source, row.queue, row.kind].join('\n'), { ...row })
    return { now, written: [...new Set(open.map(({ bucketAt }) => bucketAt))] }
  }

  async read({ from, to, stepMs, queue, kind }: SeriesQuery): ReturnType<SeriesStore['read']> {
    const hours = stepMs >= hourMs ? Math.max(from, Math.min(this.#hoursUntil, to)) : from
    const tens = stepMs >= tenMinutesMs ? Math.max(hours, Math.min(this.#tensUntil, to)) : from
    const rows = [
      ...within(this.#steps.get(hourMs)!, from, hours),
      ...within(this.#steps.get(tenMinutesMs)!, hours, tens),
      ...within(this.#steps.get(minuteMs)!, tens, to),
      ...within([...this.#parts.values()], from, to),
    ]
    return {
      now: this.#now(),
      rows: rows.filter(
        (row) => (queue === undefined || row.queue === queue) && (kind === undefined || row.kind === kind),
      ),
    }
  }

  async totals(): Promise<readonly SeriesRow[]> {
    const parts = [...this.#parts.values()].map((row) => ({ ...row, bucketAt: 0 }))
    return mergeRows([...this.#totals, ...parts].filter(isOfKind), minuteMs)
  }

  async roll(keep: SeriesKeep): Promise<boolean> {
    const now = this.#now()
    const hasGathered = this.#gather(now)
    const firstPart = Math.min(...[...this.#parts.values()].map(({ bucketAt }) => bucketAt))
    const tensTo = stepAt(Math.min(firstPart, now - minuteMs - seriesBounds.closedMs), tenMinutesMs)
    this.#rollUp(minuteMs, tenMinutesMs, this.#tensUntil, tensTo)
    this.#tensUntil = Math.max(this.#tensUntil, tensTo)
    const hoursTo = stepAt(this.#tensUntil, hourMs)
    this.#rollUp(tenMinutesMs, hourMs, this.#hoursUntil, hoursTo)
    this.#hoursUntil = Math.max(this.#hoursUntil, hoursTo)
    const kept = [
      [minuteMs, keep.minutesMs],
      [tenMinutesMs, keepTensMs(keep)],
      [hourMs, keep.hoursMs],
    ] as const
    for (const [stepMs, keepMs] of kept)
      this.#steps.set(stepMs, within(this.#steps.get(stepMs)!, now - keepMs, Number.POSITIVE_INFINITY))
    return hasGathered
  }

  #gather(now: number): boolean {
    const closed = [...this.#parts].filter(
      ([, { bucketAt }]) => bucketAt + minuteMs + seriesBounds.closedMs <= now,
    )
    if (closed.length === 0) return false
    const rows = closed.map(([, row]) => row)
    this.#steps.set(minuteMs, mergeRows([...this.#steps.get(minuteMs)!, ...rows], minuteMs))
    const added = rows.filter(isOfKind).map((row) => ({ ...row, bucketAt: 0 }))
    this.#totals = mergeRows(added, minuteMs, this.#totals)
    for (const [key] of closed) this.#parts.delete(key)
    return true
  }

  #rollUp(fromMs: number, stepMs: number, from: number, to: number): void {
    const merged = mergeRows(within(this.#steps.get(fromMs)!, from, to), stepMs)
    this.#steps.set(stepMs, [...this.#steps.get(stepMs)!, ...merged])
  }
}

function within(rows: readonly SeriesRow[], from: number, to: number): readonly SeriesRow[] {
  return rows.filter(({ bucketAt }) => bucketAt >= from && bucketAt < to)
}
