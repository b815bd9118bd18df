import { Histogram } from './histogram.ts'

/** Why a job waited before an attempt. */
export const waitCauses = ['queue', 'limit', 'lock', 'dependency', 'noWorker'] as const
export type WaitCause = (typeof waitCauses)[number]

/** The counts of a kind of job, in the order of the documentation. */
export const countNames = ['added', 'started', 'completed', 'failed', 'dead', 'cancelled'] as const
export type CountName = (typeof countNames)[number]

/** The values in a row of a queue and kind. Histograms are text, which stores do not read. */
export interface SeriesValues extends Readonly<Record<CountName, number>> {
  /** The highest numbers of ready and running jobs; null: not counted. Only rows of whole queues have them. */
  readonly ready: number | null
  readonly running: number | null
  readonly runTimes: string
  readonly waitTimes: string
}

/**
 * Adds up the counts and times of one queue and kind. Of the numbers of ready and running jobs, the highest counts,
 * because several processes count the same queue.
 */
export class SeriesCell implements Record<CountName, number> {
  added = 0
  started = 0
  completed = 0
  failed = 0
  dead = 0
  cancelled = 0
  ready: number | null = null
  running: number | null = null
  readonly run: Histogram = new Histogram()
  /** The waits by cause. Most jobs wait only in their queue. */
  readonly waits: Map<WaitCause, Histogram> = new Map()

  waited(cause: WaitCause, ms: number): void {
    this.#waitsOf(cause).observe(ms)
  }

  seen(ready: number | null, running: number | null): void {
    this.ready = highest(this.ready, ready)
    this.running = highest(this.running, running)
  }

  get isEmpty(): boolean {
    return this.ready === null && countNames.every((name) => this[name] === 0) && this.run.isEmpty
  }

  add(other: SeriesCell): void {
    this.#count(other)
    this.seen(other.ready, other.running)
    this.run.add(other.run)
    for (const [cause, times] of other.waits) this.#waitsOf(cause).add(times)
  }

  addValues(values: SeriesValues): void {
    this.#count(values)
    this.seen(values.ready, values.running)
    this.run.addText(values.runTimes)
    if (values.waitTimes === '') return
    const { waitTimes } = values
    for (let at = 0; at < waitTimes.length; ) {
      const bar = waitTimes.indexOf('|', at)
      const end = bar === -1 ? waitTimes.length : bar
      const space = waitTimes.indexOf(' ', at)
      const cause = waitTimes.slice(at, space) as WaitCause
      if (waitCauses.includes(cause)) this.#waitsOf(cause).addText(waitTimes, space + 1, end)
      at = end + 1
    }
  }

  toValues(): SeriesValues {
    const { added, started, completed, failed, dead, cancelled, ready, running } = this
    return {
      ...{ added, started, completed, failed, dead, cancelled, ready, running },
      runTimes: this.run.toText(),
      waitTimes: Array.from(this.waits, ([cause, times]) => `${cause} ${times.toText()}`).join('|'),
    }
  }

  /** The waits of all causes together. */
  get wait(): Histogram {
    const [first, ...others] = [...this.waits.values()].filter(({ isEmpty }) => !isEmpty)
    if (first !== undefined && others.length === 0) return first
    const all = new Histogram()
    for (const times of this.waits.values()) all.add(times)
    return all
  }

  /** Empties the cell for reuse. */
  clear(): void {
    this.added = this.started = this.completed = this.failed = this.dead = this.cancelled = 0
    this.ready = null
    this.running = null
    this.run.clear()
    for (const times of this.waits.values()) times.clear()
  }

  /** Names each field: a series of two days adds thousands of rows, and a loop over names takes longer. */
  #count(other: Readonly<Record<CountName, number>>): void {
    this.added += other.added
    this.started += other.started
    this.completed += other.completed
    this.failed += other.failed
    this.dead += other.dead
    this.cancelled += other.cancelled
  }

  #waitsOf(cause: WaitCause): Histogram {
    const known = this.waits.get(cause)
    if (known !== undefined) return known
    const times = new Histogram()
    this.waits.set(cause, times)
    return times
  }
}

function highest(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other
  return Math.max(one, other)
}
