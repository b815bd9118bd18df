import { Batcher } from '../../../core/batcher.ts'
import { createNotifier } from '../../../core/notifier.ts'
import type { JobEnd, JobStore } from '../../../jobs/index.ts'
import type { Feed, FeedEvent } from '../call.ts'
import { createReaderFeed, readEventId } from './watch-feeds.ts'

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
  return createReaderFeed((lastEventId, signal) => {
    const resumesAt = lastEventId === undefined ? undefined : readEventId(lastEventId)
    return followQueue(ends, queue, resumesAt, signal)
  })
}

async function* followQueue(
  ends: QueueEnds,
  queue: string,
  resumesAt: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<FeedEvent> {
  /** What was sent, by job: when it ended. */
  const sent = new Map<string, number>()
  let now = await ends.now()
  /** Up to here everything was read, but for what commits late. */
  let place = resumesAt ?? now
  // A new reader gets nothing of what ended before it came.
  const beginsAt = resumesAt === undefined ? now : resumesAt - overlapMs
  const placeEvent = (type: 'open' | 'place') => ({ id: String(place), type, data: { at: place } })

  async function* look(from: number): AsyncGenerator<FeedEvent> {
    let after: string | undefined
    for (let at = from; ; ) {
      const page = await ends.page(queue, at, after)
      for (const end of page) {
        if (sent.get(end.id) === end.finishedAt) continue
        sent.set(end.id, end.finishedAt)
        place = Math.max(place, end.finishedAt)
        yield { id: String(place), type: end.state, data: end }
      }
      const last = page.at(-1)
      if (last === undefined || page.length < pageSize) return
      at = last.finishedAt
      after = last.id
    }
  }

  yield placeEvent('open')
  for (let looks = 0; ; looks++) {
    const isLong = looks % longLookEvery === 0
    if (isLong) now = await ends.now()
    const from = Math.floor((place - (isLong ? overlapMs : shortOverlapMs)) / stepMs) * stepMs
    yield* look(Math.max(from, beginsAt))
    place = Math.max(place, now)
    // So that a reader of a quiet queue does not come back to a place long ago.
    if (isLong && looks > 0) yield placeEvent('place')
    for (const [id, finishedAt] of sent) if (finishedAt < place - overlapMs - 2 * stepMs) sent.delete(id)
    await createNotifier().wait({ timeoutMs: lookMs, signal })
  }
}
