import { type Clock, patientClock } from '../../core/clock.ts'
import { createId } from '../../core/ids.ts'
import { taskQueue } from '../../core/job-words.ts'
import { isReserved, type JobActivity, type RunOutcome, type StartedJob } from '../../jobs/index.ts'
import { minuteMs, SeriesCell, type SeriesRow, seriesBounds, stepAt, type WaitCause } from '../rules/index.ts'
import type { SeriesStore } from './series-store.ts'

/**
 * Counts the work of this process on the jobs of one namespace, and writes the counts every ten seconds, in one
 * statement. A job costs a few additions.
 *
 *     added, started, ended ──▶ the cell of its queue and kind ──minute ends, or 10 s──▶ rows of the minute ──10 s──▶ store
 *
 * A collection moves the counts of the cells into the rows of their minute, and every ten seconds it writes these rows.
 * A row has all counts of the process in the minute so far, so the recorder repeats a write whose answer was lost. If
 * the store refuses counts because their minute is closed, they count in the present minute. The store's clock decides
 * the minute: each answer of the store has the time. A process that counts nothing writes nothing and has no timer.
 */
export interface SeriesRecorder extends JobActivity, AsyncDisposable {
  /** Records the number of jobs in a queue. */
  seen(queue: string, counts: { readonly ready: number; readonly running: number }): void
  /** All counts of this process, by queue and kind. */
  totals(): readonly SeriesTotal[]
  /** Writes the counts now. */
  flush(): Promise<void>
}

export interface SeriesTotal {
  readonly queue: string
  readonly kind: string
  readonly cell: SeriesCell
}

export interface SeriesRecorderParts {
  readonly store: Pick<SeriesStore, 'now' | 'write'>
  /** @default the process's own; its timers keep no process alive */
  readonly clock?: Clock
  /** How often counts are written. @default 10_000 */
  readonly everyMs?: number
  /** Counts were written. */
  readonly onWritten?: () => void
  /** Called with the error of a failed write. The recorder repeats the write. */
  readonly onError?: (error: unknown) => void
}

const defaultEveryMs = 10_000
/** How long `close` waits for the last write. */
const closeMs = 5_000

export function createSeriesRecorder(parts: SeriesRecorderParts): SeriesRecorder {
  return new Recorder(parts)
}

/** A queue and kind. */
interface Entry {
  readonly queue: string
  readonly kind: string
  /** The counts since the last collection. */
  cell: SeriesCell
  hasCounts: boolean
  /** Before this instant, no worker took jobs of the queue. */
  attendedSince: number
  readonly total: SeriesCell
}

/** A queue and kind in one minute. */
interface Row {
  readonly queue: string
  readonly kind: string
  /** All counts of the minute. */
  readonly sum: SeriesCell
  /** The counts that the store has not confirmed; undefined: all are confirmed. */
  unconfirmed: SeriesCell | undefined
}

class Recorder implements SeriesRecorder {
  readonly #store: SeriesRecorderParts['store']
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #onWritten: () => void
  readonly #onError: (error: unknown) => void
  readonly #source = createId()
  readonly #entries = new Map<string, Map<string, Entry>>()
  readonly #attendedSince = new Map<string, number>()
  #entryCount = 0
  #last: Entry | undefined
  /** Entries with counts that belong to no minute yet. */
  #countedEntries: Entry[] = []
  /** Rows by minute. */
  readonly #minutes = new Map<number, Map<Entry, Row>>()
  /** How far the store's clock is ahead of this process's clock. */
  #aheadMs: number | undefined
  /** The time of the first count since the last collection. */
  #firstCountAt = 0
  #writeAt = 0
  #writtenAt = Number.NEGATIVE_INFINITY
  #timer: unknown
  #collections: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor({
    store,
    clock = patientClock,
    everyMs = defaultEveryMs,
    onWritten = () => undefined,
    onError = () => undefined,
  }: SeriesRecorderParts) {
    this.#store = store
    this.#clock = clock
    this.#everyMs = everyMs
    this.#onWritten = onWritten
    this.#onError = onError
  }

  added(
    jobs: readonly { queue: string; kind: string; id: string }[],
    answers: readonly { id: string; duplicate: boolean }[],
  ): void {
    for (let at = 0; at < jobs.length; at++) {
      const job = jobs[at]!
      const answer = answers[at]
      // A request that is repeated with its key gets the id of the first request, and counts no job.
      if (answer !== undefined && !answer.duplicate && answer.id === job.id)
        this.#cell(job.queue, job.kind).added++
    }
  }

  unattended(queues: readonly string[], until: number): void {
    for (const queue of queues) {
      this.#attendedSince.set(queue, until)
      for (const entry of this.#entries.get(queue)?.values() ?? []) entry.attendedSince = until
    }
  }

  started(job: StartedJob): void {
    const cell = this.#cell(job.queue, job.kind)
    cell.started++
    // Both are instants of the store's clock.
    if (job.startedAt !== null)
      cell.waited(causeOf(job, this.#last!.attendedSince), job.startedAt - job.runAt)
  }

  ended({ queue, kind }: { queue: string; kind: string }, outcome: RunOutcome, ranMs: number | null): void {
    const name = countOf[outcome]
    if (name === undefined) return
    const cell = this.#cell(queue, kind)
    cell[name]++
    if (ranMs !== null) cell.run.observe(ranMs)
  }

  cancelled({ queue, kind }: { queue: string; kind: string }): void {
    this.#cell(queue, kind).cancelled++
  }

  seen(queue: string, { ready, running }: { readonly ready: number; readonly running: number }): void {
    this.#cell(queue, '').seen(ready, running)
  }

  totals(): readonly SeriesTotal[] {
    return [...this.#entries.values()].flatMap((kinds) =>
      [...kinds.values()].flatMap(({ queue, kind, cell, total }) => {
        if (isReserved(queue) || (kind === '' && queue !== '')) return []
        const sum = new SeriesCell()
        sum.add(total)
        sum.add(cell)
        return [{ queue, kind, cell: sum }]
      }),
    )
  }

  flush(): Promise<void> {
    return this.#enqueueCollection(true)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#clearTimer()
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, closeMs)
    await Promise.race([this.flush(), late.promise])
    clearTimeout(timer)
    this.#clearTimer()
  }

  #cell(queue: string, kind: string): SeriesCell {
    let entry = this.#last
    if (entry === undefined || entry.kind !== kind || entry.queue !== queue) {
      entry = this.#entries.get(queue)?.get(kind) ?? this.#create(queue, kind)
      this.#last = entry
    }
    if (!entry.hasCounts) this.#markCounted(entry)
    return entry.cell
  }

  #create(queue: string, kind: string): Entry {
    const isKnown = this.#entryCount < seriesBounds.keys
    const [ownQueue, ownKind] = isKnown ? [queue, kind] : ['', '']
    const kinds = this.#entries.get(ownQueue) ?? new Map<string, Entry>()
    this.#entries.set(ownQueue, kinds)
    const known = kinds.get(ownKind)
    if (known !== undefined) return known
    const entry = {
      queue: ownQueue,
      kind: ownKind,
      cell: new SeriesCell(),
      hasCounts: false,
      total: new SeriesCell(),
      attendedSince: this.#attendedSince.get(queue) ?? 0,
    }
    kinds.set(ownKind, entry)
    this.#entryCount++
    return entry
  }

  /** Records that this entry has counts since the last collection. */
  #markCounted(entry: Entry): void {
    entry.hasCounts = true
    // Series show none of Signalbox's own queues except tasks.
    if (isReserved(entry.queue) && entry.queue !== taskQueue) return
    if (this.#countedEntries.push(entry) > 1) return
    this.#firstCountAt = this.#clock.now()
    if (this.#timer === undefined) this.#schedule()
  }

  /** Plans the next collection: at the next write, or at the end of the minute. */
  #schedule(): void {
    this.#clearTimer()
    if (this.#isClosed) return
    const now = this.#clock.now()
    // A random pause, so that the processes of a fleet do not write at the same time.
    const soonMs = this.#everyMs * (0.5 + Math.random() / 2)
    if (this.#writeAt <= now) this.#writeAt = Math.max(this.#writtenAt + this.#everyMs, now + soonMs)
    const toEndMs =
      this.#aheadMs === undefined ? this.#everyMs : minuteMs - ((now + this.#aheadMs) % minuteMs)
    this.#timer = this.#clock.setTimeout(
      () => {
        this.#timer = undefined
        void this.#enqueueCollection(this.#clock.now() >= this.#writeAt - 1).then(() => {
          if (this.#timer === undefined && (this.#countedEntries.length > 0 || this.#hasUnconfirmed()))
            this.#schedule()
        })
      },
      Math.max(1, Math.min(this.#writeAt - now, toEndMs)),
    )
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Runs collections one after the other, so that no write overtakes another. Never rejects. */
  #enqueueCollection(shouldWrite: boolean): Promise<void> {
    this.#collections = this.#collections.then(() => this.#collectAndWrite(shouldWrite))
    return this.#collections
  }

  async #collectAndWrite(shouldWrite: boolean): Promise<void> {
    try {
      if (this.#aheadMs === undefined && shouldWrite) {
        const sentAt = this.#clock.now()
        this.#setStoreTime(await this.#store.now(), sentAt)
      }
      this.#collect()
      if (shouldWrite) await this.#write()
    } catch (error) {
      this.#writtenAt = this.#clock.now()
      this.#writeAt = 0
      this.#onError(error)
    }
  }

  /** Adds the counts since the last collection to the minute in which they began. */
  #collect(): void {
    if (this.#aheadMs === undefined || this.#countedEntries.length === 0) return
    const bucketAt = stepAt(this.#firstCountAt + this.#aheadMs, minuteMs)
    for (const entry of this.#countedEntries) {
      const { cell } = entry
      entry.cell = new SeriesCell()
      entry.hasCounts = false
      entry.total.add(cell)
      this.#addToMinute(bucketAt, entry, cell)
    }
    this.#countedEntries = []
  }

  #addToMinute(bucketAt: number, entry: Entry, part: SeriesCell): void {
    const rows = this.#minutes.get(bucketAt) ?? new Map<Entry, Row>()
    this.#minutes.set(bucketAt, rows)
    const { queue, kind } = entry
    const row = rows.get(entry) ?? { queue, kind, sum: new SeriesCell(), unconfirmed: undefined }
    rows.set(entry, row)
    row.sum.add(part)
    row.unconfirmed ??= new SeriesCell()
    row.unconfirmed.add(part)
  }

  async #write(): Promise<void> {
    const sent: {
      readonly bucketAt: number
      readonly entry: Entry
      readonly row: Row
      readonly part: SeriesCell
    }[] = []
    for (const [bucketAt, rows] of this.#minutes) {
      for (const [entry, row] of rows) {
        if (row.unconfirmed === undefined) continue
        sent.push({ bucketAt, entry, row, part: row.unconfirmed })
        row.unconfirmed = undefined
      }
    }
    const sentAt = this.#clock.now()
    if (sent.length === 0) return this.#forget(sentAt + this.#aheadMs!)
    try {
      const rows = sent.map(({ bucketAt, row }): SeriesRow => {
        const { queue, kind, sum } = row
        return { bucketAt, queue, kind, ...sum.toValues() }
      })
      const { now, written } = await this.#store.write(this.#source, rows)
      this.#setStoreTime(now, sentAt)
      // The store closed the minute before this write, so the counts go to the present minute.
      for (const { bucketAt, entry, part } of sent)
        if (!written.includes(bucketAt)) this.#addToMinute(stepAt(now, minuteMs), entry, part)
      this.#forget(now)
      this.#onWritten()
    } catch (error) {
      for (const { row, part } of sent) {
        row.unconfirmed ??= new SeriesCell()
        row.unconfirmed.add(part)
      }
      throw error
    } finally {
      this.#writtenAt = this.#clock.now()
      this.#writeAt = 0
    }
  }

  #forget(now: number): void {
    for (const bucketAt of this.#minutes.keys())
      if (bucketAt + minuteMs + seriesBounds.openMs <= now) this.#minutes.delete(bucketAt)
  }

  #setStoreTime(storeNow: number, sentAt: number): void {
    this.#aheadMs = storeNow - (sentAt + this.#clock.now()) / 2
  }

  #hasUnconfirmed(): boolean {
    return [...this.#minutes.values()].some((rows) =>
      [...rows.values()].some(({ unconfirmed }) => unconfirmed !== undefined),
    )
  }
}

const countOf: Partial<Record<RunOutcome, 'completed' | 'failed' | 'dead' | 'cancelled'>> = {
  completed: 'completed',
  retried: 'failed',
  dead: 'dead',
  cancelled: 'cancelled',
}

/** Chooses one cause for the whole wait, which may have several. */
function causeOf({ meta, attempt, limited, runAt }: StartedJob, attendedSince: number): WaitCause {
  if (meta !== null) {
    if (meta.includes('"lock":')) return 'lock'
    if (attempt === 1 && meta.includes('"after":')) return 'dependency'
  }
  if (runAt < attendedSince) return 'noWorker'
  return limited === true ? 'limit' : 'queue'
}
