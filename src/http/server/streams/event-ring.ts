import type { FeedEvent } from '../call.ts'

/** An event with its number. */
export interface RingEvent extends FeedEvent {
  readonly id?: number
}

/**
 * The last events of a feed, and the ids by which a reader that was cut off goes on where it was.
 *
 *     id (53 bits)   time in steps of 16 ms : 38   which ring : 15
 *
 * The time is that of the wall clock, or one step after the last id when that is later, so ids rise strictly within a
 * ring, and over restarts: the next process begins after all that the last one gave. (A feed has few events a second,
 * so its ids never run ahead of the clock. The 38 bits last until 2109.) The lower bits are drawn when the ring is made.
 * They tell it from the rings of other servers and namespaces: a ring recognizes only its own ids, and a reader with
 * another id has to begin anew.
 *
 * Every id from the oldest that is still followed without a gap up to the last one given can be resumed from.
 */
export interface Ring {
  /** The last event, if there is one. */
  readonly last: RingEvent | undefined
  /** Makes the next event and keeps it. */
  publish(event: Omit<FeedEvent, 'id'>): RingEvent
  /** What came after that id; undefined when that is not known. */
  since(lastEventId: string): readonly RingEvent[] | undefined
  /** The last event for a reader that saw this id elsewhere: under a later one where its own is not. */
  lastAfter(lastEventId: string): RingEvent | undefined
}

/** How much a ring keeps. */
export interface RingOptions {
  /** @default 64 */
  readonly maxEvents?: number
  /** Of text; the last event is kept in any case. What was missed must fit into a stream's buffer. @default 131_072 */
  readonly maxBytes?: number
  /** The wall clock, in epoch milliseconds. @default Date.now */
  readonly now?: () => number
  /** What tells it from others, below 32,768. @default drawn at random */
  readonly mark?: number
}

const stepMs = 16
const marks = 2 ** 15
/** An id so far ahead of the clock was not given by a server whose clock is anything like ours. */
const maxAheadMs = 86_400_000

export function createRing(options: RingOptions = {}): Ring {
  return new EventRing(options)
}

class EventRing implements Ring {
  readonly #now: () => number
  readonly #mark: number
  readonly #maxEvents: number
  readonly #maxBytes: number
  readonly #events: { readonly id: number; readonly event: RingEvent; readonly bytes: number }[] = []
  #bytes = 0
  /** The time in the last id given, in steps. */
  #step: number
  /** What came after this id is all here; what came before is not. */
  #completeAfter: number

  constructor({ maxEvents = 64, maxBytes = 131_072, now = Date.now, mark = drawMark() }: RingOptions) {
    this.#maxEvents = maxEvents
    this.#maxBytes = maxBytes
    this.#now = now
    this.#mark = mark
    this.#step = Math.floor(now() / stepMs)
    this.#completeAfter = this.#step * marks + mark
  }

  get last(): RingEvent | undefined {
    return this.#events.at(-1)?.event
  }

  publish(event: Omit<FeedEvent, 'id'>): RingEvent {
    const id = this.#nextId()
    const published = { ...event, id }
    const bytes = Buffer.byteLength(event.text ?? JSON.stringify(event.data))
    this.#events.push({ id, event: published, bytes })
    this.#bytes += bytes
    while (
      this.#events.length > 1 &&
      (this.#events.length > this.#maxEvents || this.#bytes > this.#maxBytes)
    ) {
      const oldest = this.#events.shift()!
      this.#bytes -= oldest.bytes
      this.#completeAfter = oldest.id
    }
    return published
  }

  since(lastEventId: string): readonly RingEvent[] | undefined {
    const id = decodeId(lastEventId)
    if (id === undefined || id % marks !== this.#mark) return undefined
    if (id < this.#completeAfter || id > this.#step * marks + this.#mark) return undefined
    return this.#events.filter((one) => one.id > id).map((one) => one.event)
  }

  lastAfter(lastEventId: string): RingEvent | undefined {
    const newest = this.#events.at(-1)
    const id = decodeId(lastEventId)
    if (newest === undefined || id === undefined || id < newest.id) return newest?.event
    const step = Math.floor(id / marks)
    if (step * stepMs > this.#now() + maxAheadMs) return newest.event
    // Another server's clock is ahead, or ours was set back. From here on our ids are above that one.
    this.#step = Math.max(this.#step, step)
    return { ...newest.event, id: this.#nextId() }
  }

  #nextId(): number {
    this.#step = Math.max(this.#step + 1, Math.floor(this.#now() / stepMs))
    return this.#step * marks + this.#mark
  }
}

function decodeId(text: string): number | undefined {
  const id = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(id) ? id : undefined
}

function drawMark(): number {
  return crypto.getRandomValues(new Uint16Array(1))[0]! % marks
}
