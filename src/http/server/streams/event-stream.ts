import type { Clock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { encodeComment, encodeEvent } from '../../contract/index.ts'
import type { Authenticator, FeedEvent, FeedReader, OutgoingStream } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import type { Wheel } from './timer-wheel.ts'
import type { Transport, TransportOwner } from './transport.ts'

/** What the streams of a server share. */
export interface StreamKeeper {
  readonly options: {
    readonly maxBufferedBytes: number
    readonly lastWordsMs: number
    readonly clock: Clock
    onError(error: unknown): void
  }
  readonly authenticator: Pick<Authenticator, 'watch'>
  /** Those that are open. */
  readonly wheel: Wheel<EventStream>
  /** Those that have had their last word and are not closed yet. */
  readonly ending: Set<EventStream>
  /** What waits in all of them. */
  bufferedBytes: number
  /** One has been closed. */
  forget(stream: EventStream): void
}

const nothing: Uint8Array[] = []
const comment: Uint8Array = Buffer.from(encodeComment())

/**
 * One stream to one reader. Small, for there may be many thousands: what can be shared is in its keeper, and nothing
 * here keeps the request it came from.
 */
export class EventStream implements FeedReader, TransportOwner {
  readonly #keeper: StreamKeeper
  readonly #transport: Transport
  readonly #ended: OutgoingStream['ended']
  #state: 'open' | 'ending' | 'closed' = 'open'
  #slot = -1
  #leaveFeed: (() => void) | undefined
  #unwatch: (() => void) | undefined
  #lingering: unknown
  /** The id sent last: none may come twice or fall. */
  #lastId = -1
  /** The transport said no; what comes now waits in the queue. */
  #isBlocked = false
  /** Visits in a row that found it so. */
  #blockedVisits = 0
  #isTooSlow = false
  #queue: Uint8Array[] = nothing
  #queuedBytes = 0

  constructor(keeper: StreamKeeper, transport: Transport, ended: OutgoingStream['ended']) {
    this.#keeper = keeper
    this.#transport = transport
    this.#ended = ended
  }

  open({ principal, feed, lastEventId }: OutgoingStream, preface: Uint8Array): void {
    if (this.#isOver()) return
    this.#slot = this.#keeper.wheel.add(this)
    this.#write(preface)
    try {
      this.#unwatch = this.#keeper.authenticator.watch(principal, (reason) => this.fail(reason))
      if (!this.#isOver()) this.#leaveFeed = feed.open(lastEventId, this)
    } catch (error) {
      this.fail(error)
    }
    // Either may have ended the stream before it said how to let go of it.
    if (this.#isOver()) this.#letGo()
  }

  send(event: FeedEvent): void {
    if (this.#isOver()) return
    if (event.id !== undefined) {
      if (event.id <= this.#lastId) return
      this.#lastId = event.id
    }
    try {
      this.#write(bytesOf(event))
    } catch (error) {
      this.fail(error)
    }
  }

  fail(error: unknown): void {
    if (this.#isOver()) return
    const known = asSignalboxError(error)
    if (known.code === 'internal') this.#keeper.options.onError(error)
    this.finish(lastWords(known))
  }

  end(): void {
    this.finish(noWords)
  }

  /** A sign of life; whoever is gone without a word is found by it. */
  keepAlive(): void {
    if (!this.#isBlocked) this.#write(comment)
    else if (++this.#blockedVisits > 1) this.#drop()
  }

  drained(): void {
    if (!this.#isBlocked || this.#isOver()) return
    this.#isBlocked = false
    this.#blockedVisits = 0
    const queue = this.#queue
    let sent = 0
    while (sent < queue.length && !this.#isBlocked) {
      const chunk = queue[sent++]!
      this.#count(-chunk.length)
      this.#isBlocked = !this.#transport.write(chunk)
    }
    this.#queue = sent === queue.length ? nothing : queue.slice(sent)
  }

  closed(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#letGo()
    this.#keeper.options.clock.clearTimeout(this.#lingering)
    this.#keeper.forget(this)
    this.#ended(this.#isTooSlow ? 'dropped' : 'ended')
  }

  /** Writes the last words and ends it; whoever does not read them in time is cut off. */
  finish(words: Uint8Array): void {
    if (this.#isOver()) return
    this.#state = 'ending'
    this.#letGo()
    this.#keeper.ending.add(this)
    if (words.length > 0) this.#transport.write(words)
    this.#transport.end()
    const { clock, lastWordsMs } = this.#keeper.options
    this.#lingering = clock.setTimeout(() => {
      this.#transport.destroy()
      this.closed()
    }, lastWordsMs)
  }

  #isOver(): boolean {
    return this.#state !== 'open'
  }

  #write(chunk: Uint8Array): void {
    if (!this.#isBlocked) {
      this.#isBlocked = !this.#transport.write(chunk)
      return
    }
    if (this.#queuedBytes + chunk.length > this.#keeper.options.maxBufferedBytes) {
      this.#drop()
      return
    }
    if (this.#queue === nothing) this.#queue = []
    this.#queue.push(chunk)
    this.#count(chunk.length)
  }

  #count(bytes: number): void {
    this.#queuedBytes += bytes
    this.#keeper.bufferedBytes += bytes
  }

  #drop(): void {
    this.#isTooSlow = true
    this.fail(
      new SignalboxError(
        'too_many',
        'This reader takes events more slowly than they come, so its stream was ended. Read faster, or open it again.',
      ),
    )
  }

  #letGo(): void {
    this.#queue = nothing
    this.#count(-this.#queuedBytes)
    if (this.#slot >= 0) this.#keeper.wheel.delete(this, this.#slot)
    this.#leaveFeed?.()
    this.#unwatch?.()
    this.#leaveFeed = undefined
    this.#unwatch = undefined
  }
}

const noWords: Uint8Array = new Uint8Array()

/** Events are shared by many readers; each is put into bytes once. */
const encoded = new WeakMap<FeedEvent, Uint8Array>()

function bytesOf(event: FeedEvent): Uint8Array {
  const known = encoded.get(event)
  if (known !== undefined) return known
  const { id, type, data, text = JSON.stringify(data) } = event
  const bytes = Buffer.from(encodeEvent({ id, type, data: text }))
  encoded.set(event, bytes)
  return bytes
}

function lastWords({ code, message }: SignalboxError): Uint8Array {
  return Buffer.from(encodeEvent({ type: 'error', data: JSON.stringify({ code, message }) }))
}
