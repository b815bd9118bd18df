import { Batcher } from '../../../core/batcher.ts'
import { SignalboxError } from '../../../core/errors.ts'
import type { JobEnd, JobStore } from '../../../jobs/index.ts'
import type { Feed, FeedReader } from '../call.ts'
import { readEventId } from './watch-feeds.ts'

/**
 * Which jobs of a queue ended, for readers that may have been away. An event's id is a place in the time
 * of the store; a reader that comes with one goes on from the rows.
 *
 *     ──────── overlap ────────┐
 *     …  a   b   (c commits late)   d │ now        each look reads the overlap again and leaves out what was sent
 *
 * A transaction commits after the instant that it wrote, so a row may appear behind others that were sent before. So looks go
 * back a second, and every tenth goes back ten. What commits later than that after its end is missed. The place moves on with
 * the clock, so that a look at a quiet queue does not read all that ended in the others.
 *
 * Readers that look at the same time share one statement.
 */
export class QueueEnds {
  readonly #looks: Batcher<string, readonly JobEnd[]>
  /** The store's clock. */
  readonly now: () => Promise<number>

  constructor(jobs: Pick<JobStore, 'ends'>, now: () => Promise<number>) {
    this.now = now
    this.#looks = new Batcher({
      run: (asked) => Promise.all(asked.map((text) => jobs.ends(JSON.parse(text)))),
      start: (begin) => void setTimeout(begin, gatherMs),
      mergesEqual: true,
      maxInFlight: 4,
    })
  }

  /** A page of ends, and whether there may be more. */
  async page(queue: string, from: number, after: string | undefined): Promise<readonly JobEnd[]> {
    return this.#looks.add(JSON.stringify({ queue, from, after, limit: pageSize }))
  }
}

const gatherMs = 20
const pageSize = 200
const lookMs = 1_000
const shortOverlapMs = 1_000
export const overlapMs = 10_000
const longLookEvery = 10
/** Equal looks are shared, so they begin at whole seconds. */
const stepMs = 1_000

export function createQueueFeed(ends: QueueEnds, queue: string): Feed {
  return {
    open(lastEventId, reader) {
      const controller = new AbortController()
      const from = lastEventId === undefined ? undefined : readEventId(lastEventId)
      void new QueueFollower(ends, queue, reader).follow(from, controller.signal)
      return () => controller.abort(gone)
    },
  }
}

const gone = new SignalboxError('closed', 'The reader of this stream has gone.')

class QueueFollower {
  readonly #ends: QueueEnds
  readonly #queue: string
  readonly #reader: FeedReader
  /** What was sent, by job: when it ended. */
  readonly #sent = new Map<string, number>()
  /** Up to here everything was read, but for what commits late. */
  #place = 0

  constructor(ends: QueueEnds, queue: string, reader: FeedReader) {
    this.#ends = ends
    this.#queue = queue
    this.#reader = reader
  }

  /** Never rejects. */
  async follow(resumesAt: number | undefined, signal: AbortSignal): Promise<void> {
    try {
      let now = await this.#ends.now()
      this.#place = resumesAt ?? now
      // A new reader gets nothing of what ended before it came.
      const beginsAt = resumesAt === undefined ? now : resumesAt - overlapMs
      if (signal.aborted) return
      this.#sendPlace('open')
      for (let looks = 0; !signal.aborted; looks++) {
        const isLong = looks % longLookEvery === 0
        if (isLong) now = await this.#ends.now()
        const from = Math.floor((this.#place - (isLong ? overlapMs : shortOverlapMs)) / stepMs) * stepMs
        await this.#look(Math.max(from, beginsAt), signal)
        this.#place = Math.max(this.#place, now)
        if (isLong && looks > 0) this.#sendPlace('place')
        this.#forget(this.#place - overlapMs - 2 * stepMs)
        await pause(lookMs, signal)
      }
    } catch (error) {
      if (!signal.aborted) this.#reader.fail(error)
    }
  }

  async #look(from: number, signal: AbortSignal): Promise<void> {
    let after: string | undefined
    for (let at = from; ; ) {
      const page = await this.#ends.page(this.#queue, at, after)
      if (signal.aborted) return
      for (const end of page) this.#send(end)
      const last = page.at(-1)
      if (last === undefined || page.length < pageSize) return
      at = last.finishedAt
      after = last.id
    }
  }

  #send(end: JobEnd): void {
    if (this.#sent.get(end.id) === end.finishedAt) return
    this.#sent.set(end.id, end.finishedAt)
    this.#place = Math.max(this.#place, end.finishedAt)
    this.#reader.send({ id: String(this.#place), type: end.state, data: end })
  }

  /** Also now and then, so that a reader of a quiet queue does not come back to a place long ago. */
  #sendPlace(type: 'open' | 'place'): void {
    this.#reader.send({ id: String(this.#place), type, data: { at: this.#place } })
  }

  #forget(before: number): void {
    for (const [id, finishedAt] of this.#sent) if (finishedAt < before) this.#sent.delete(id)
  }
}

/** Rejects when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const over = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', over)
      resolve()
    }, ms)
    signal.addEventListener('abort', over, { once: true })
  })
}
