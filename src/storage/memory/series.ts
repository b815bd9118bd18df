import {
  hourMs,
  isOfKind,
  keptSteps,
  type Merge,
  mergeRows,
  minuteMs,
  planRead,
  planSeries,
  type SeriesKeep,
  type SeriesRow,
  seriesBounds,
  tenMinutesMs,
} from '../../fleet/rules/index.ts'
import type { SeriesQuery, SeriesStore } from '../../fleet/series/series-store.ts'

/** Counts and times of jobs in one namespace. */
export class MemorySeries implements SeriesStore {
  readonly #now: () => number
  /** By minute, source, queue and kind. */
  readonly #parts = new Map<string, SeriesRow>()
  readonly #steps = new Map<number, readonly SeriesRow[]>(keptSteps.map((stepMs) => [stepMs, []]))
  #totals: readonly SeriesRow[] = []
  #mark = { tensUntil: 0, hoursUntil: 0 }

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

  async read(query: SeriesQuery): ReturnType<SeriesStore['read']> {
    const { queue, kind } = query
    const { hours, tens, minutes } = planRead(query, this.#mark)
    const rows = [
      ...within(this.#rows(hourMs), hours),
      ...within(this.#rows(tenMinutesMs), tens),
      ...within(this.#rows(minuteMs), minutes),
      ...within([...this.#parts.values()], query),
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

  async merge(keep: SeriesKeep): Promise<boolean> {
    const { tensUntil, hoursUntil } = this.#mark
    const { minuteToMerge, merges, old } = planSeries(
      {
        ...{ now: this.#now(), mark: this.#mark, firstPart: firstAt([...this.#parts.values()]) },
        firstMinute: firstAt(this.#rows(minuteMs), tensUntil),
        firstTen: firstAt(this.#rows(tenMinutesMs), hoursUntil),
        oldest: keptSteps.map((stepMs) => firstAt(this.#rows(stepMs))),
      },
      keep,
    )
    if (minuteToMerge !== undefined) this.#mergeMinute(minuteToMerge)
    for (const one of merges) this.#mergeSteps(one)
    for (const { stepMs, before } of old)
      this.#steps.set(stepMs, within(this.#rows(stepMs), { from: before, to: Number.POSITIVE_INFINITY }))
    return minuteToMerge !== undefined || merges.length > 0
  }

  #rows(stepMs: number): readonly SeriesRow[] {
    return this.#steps.get(stepMs)!
  }

  #mergeMinute(minute: number): void {
    const closed = [...this.#parts].filter(([, { bucketAt }]) => bucketAt === minute)
    const rows = closed.map(([, row]) => row)
    this.#steps.set(minuteMs, mergeRows([...this.#rows(minuteMs), ...rows], minuteMs))
    const added = rows.filter(isOfKind).map((row) => ({ ...row, bucketAt: 0 }))
    this.#totals = mergeRows(added, minuteMs, this.#totals)
    for (const [key] of closed) this.#parts.delete(key)
  }

  #mergeSteps({ fromMs, stepMs, from, to, mark }: Merge): void {
    const merged = mergeRows(within(this.#rows(fromMs), { from, to }), stepMs)
    this.#steps.set(stepMs, [...this.#rows(stepMs), ...merged])
    this.#mark = {
      tensUntil: Math.max(this.#mark.tensUntil, mark.tensUntil),
      hoursUntil: Math.max(this.#mark.hoursUntil, mark.hoursUntil),
    }
  }
}

function within(
  rows: readonly SeriesRow[],
  { from, to }: { readonly from: number; readonly to: number },
): readonly SeriesRow[] {
  return rows.filter(({ bucketAt }) => bucketAt >= from && bucketAt < to)
}

/** The start of the first row at `from` or later. */
function firstAt(rows: readonly SeriesRow[], from = 0): number | undefined {
  return rows.reduce<number | undefined>(
    (first, { bucketAt }) => (bucketAt < from || (first ?? bucketAt) < bucketAt ? first : bucketAt),
    undefined,
  )
}
