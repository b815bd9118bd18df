import type { Added, Fired, NewJob, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import { compareBytes } from '../compare-bytes.ts'

/** Schedules of one namespace. */
export class MemorySchedules implements ScheduleStore {
  readonly #now: () => number
  readonly #jobs: { insert(jobs: readonly NewJob[]): readonly Added[] }
  readonly #rows = new Map<string, ScheduleRecord>()
  /** One counter for all schedules, so that a schedule that is deleted and added again gets a new revision. */
  #version = 0

  constructor(now: () => number, jobs: { insert(jobs: readonly NewJob[]): readonly Added[] }) {
    this.#now = now
    this.#jobs = jobs
  }

  async put({ name, doc, isPaused, nextAt }: NewSchedule, seen: number): Promise<number | null> {
    const known = this.#rows.get(name)
    if (seen !== (known?.version ?? 0)) return null
    const { lastSlotAt, lastFiredAt, createdAt } = known ?? { ...neverFired, createdAt: this.#now() }
    const version = ++this.#version
    this.#rows.set(name, { name, doc, isPaused, nextAt, version, lastSlotAt, lastFiredAt, createdAt })
    return version
  }

  async remove(name: string): Promise<boolean> {
    return this.#rows.delete(name)
  }

  async find(name: string): Promise<ScheduleRecord | undefined> {
    return this.#rows.get(name)
  }

  async list({ limit, after }: { limit: number; after?: string }): Promise<readonly ScheduleRecord[]> {
    return [...this.#rows.values()]
      .sort(byName)
      .filter(({ name }) => after === undefined || compareBytes(name, after) > 0)
      .slice(0, limit)
  }

  async due(limit: number): Promise<{ schedules: readonly ScheduleRecord[]; now: number }> {
    const now = this.#now()
    const schedules = this.#waiting()
      .filter(({ nextAt }) => nextAt <= now)
      .sort((a, b) => a.nextAt - b.nextAt || byName(a, b))
      .slice(0, limit)
    return { schedules, now }
  }

  async nextDue(): Promise<{ nextAt: number | null; now: number }> {
    const instants = this.#waiting().map(({ nextAt }) => nextAt)
    return { nextAt: instants.length === 0 ? null : Math.min(...instants), now: this.#now() }
  }

  async fire({
    name,
    seen,
    force,
    nextAt,
    slotAt,
    jobs,
  }: Fired): Promise<{ version: number; added: readonly Added[] } | null> {
    const known = this.#rows.get(name)
    if (known?.version !== seen || (known.isPaused && !force)) return null
    // Add the jobs first: if that fails, the schedules are unchanged.
    const added = this.#jobs.insert(jobs)
    const version = ++this.#version
    const lastSlotAt = slotAt ?? known.lastSlotAt
    this.#rows.set(name, { ...known, version, nextAt, lastSlotAt, lastFiredAt: this.#now() })
    return { version, added }
  }

  /** The schedules that have a next run. */
  #waiting(): (ScheduleRecord & { readonly nextAt: number })[] {
    const isWaiting = (row: ScheduleRecord): row is ScheduleRecord & { readonly nextAt: number } =>
      !row.isPaused && row.nextAt !== null
    return [...this.#rows.values()].filter(isWaiting)
  }
}

const neverFired = { lastSlotAt: null, lastFiredAt: null }

function byName(a: ScheduleRecord, b: ScheduleRecord): number {
  return compareBytes(a.name, b.name)
}
