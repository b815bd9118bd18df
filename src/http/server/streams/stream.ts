import { type Clock, patientClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { encodeComment, encodeEvent, encodeRetry } from '../../contract/index.ts'
import type { Authenticator, FeedEvent, FeedReader, OutgoingStream } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { bodyTransport, type Transport, type TransportOwner } from './transport.ts'

/** Limits and intervals of streams. */
export interface StreamsOptions {
  /** How often the server sends a comment as a sign of life. @default 15_000 */
  readonly keepAliveMs?: number
  /** How many bytes the server queues for a slow reader, beyond the buffer of its connection. @default 262_144 */
  readonly maxBufferedBytes?: number
  /** How long the server asks readers to wait before they reconnect, give or take a half. @default 2_000 */
  readonly retryMs?: number
  /** How long a reader may take to read the last event. @default 2_000 */
  readonly lastWordsMs?: number
  /** Gets unexpected errors of a feed. @default prints it */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
  readonly random?: () => number
}

const streamsDefaults: Required<StreamsOptions> = {
  keepAliveMs: 15_000,
  maxBufferedBytes: 262_144,
  retryMs: 2_000,
  lastWordsMs: 2_000,
  onError: (error) => console.error('A stream of events failed:', error),
  clock: patientClock,
  random: Math.random,
}

/**
 * All open streams of server-sent events of a server.
 *
 *     feed ──send──▶ stream ──write──▶ transport ──▶ reader
 *                      └─ the transport is full: events wait in the stream's queue, up to maxBufferedBytes
 *                          └─ the queue is full, or the transport stays full for a whole period: `error`, cut
 *
 * An idle stream is a few small objects and a timer. The server encodes an event once for all its readers. A stream
 * does not keep its request. A slow reader has its own bounded queue and delays no other reader.
 *
 * A stream ends when its client leaves, its feed fails, its token is no longer valid, its reader is too slow, or the
 * server shuts down. A client that can still read gets the reason as `error { code, message }`, or a reconnect time.
 */
export class Streams {
  readonly options: Required<StreamsOptions>
  readonly authenticator: Pick<Authenticator, 'watch'>
  readonly open: Set<EventStream> = new Set()
  /** Streams that sent their last event and are closing. */
  readonly ending: Set<EventStream> = new Set()
  /** The bytes that wait in the queues of all streams. */
  bufferedBytes = 0
  #whenEnded: PromiseWithResolvers<void> | undefined

  constructor(options: StreamsOptions & { readonly authenticator: Pick<Authenticator, 'watch'> }) {
    const { authenticator, ...given } = options
    this.options = { ...streamsDefaults, ...given }
    this.authenticator = authenticator
  }

  /** The number of open streams. */
  get size(): number {
    return this.open.size
  }

  /** Streams to a transport whose response head was written. */
  serve(outgoing: OutgoingStream, transport: Transport): void {
    const stream = new EventStream(this, transport, outgoing.ended)
    transport.attach(stream)
    if (this.#whenEnded === undefined) stream.open(outgoing, this.#retry(this.options.retryMs / 2))
    else stream.finish(this.#retry(this.options.retryMs))
  }

  /** Streams to the body of a `Response`. */
  toBody(outgoing: OutgoingStream): ReadableStream<Uint8Array> {
    const { transport, body } = bodyTransport()
    this.serve(outgoing, transport)
    return body
  }

  /** Sends every reader a reconnect time and ends its stream. A stream that opens later gets both at once. */
  close(): Promise<void> {
    if (this.#whenEnded === undefined) {
      this.#whenEnded = Promise.withResolvers<void>()
      // Spreads the reconnects over a millisecond for each reader, so that the next server is not flooded.
      const fromMs = this.options.retryMs
      const spreadMs = Math.max(fromMs, this.size)
      for (const stream of [...this.open]) stream.finish(this.#retry(fromMs, spreadMs))
      this.#checkEnd()
    }
    return this.#whenEnded.promise
  }

  /** Removes a closed stream. */
  forget(stream: EventStream): void {
    this.ending.delete(stream)
    this.#checkEnd()
  }

  #checkEnd(): void {
    if (this.ending.size === 0) this.#whenEnded?.resolve()
  }

  #retry(fromMs: number, spreadMs = this.options.retryMs): Uint8Array {
    return Buffer.from(encodeRetry(fromMs + this.options.random() * spreadMs))
  }
}

const nothing: Uint8Array[] = []
const comment: Uint8Array = Buffer.from(encodeComment())

/**
 * One stream to one reader. It stays small, because a server may have many thousands: shared state is in its owner, and
 * the stream does not keep its request.
 */
class EventStream implements FeedReader, TransportOwner {
  readonly #owner: Streams
  readonly #transport: Transport
  readonly #ended: OutgoingStream['ended']
  #state: 'open' | 'ending' | 'closed' = 'open'
  #nextComment: unknown
  #leaveFeed: (() => void) | undefined
  #unwatch: (() => void) | undefined
  #closeTimer: unknown
  /** The last id sent. The stream drops events with this id or a lower one. */
  #lastId = -1
  /** The transport is full; further chunks wait in the queue. */
  #isBlocked = false
  /** The number of consecutive comment timers that found the stream blocked. */
  #blockedPeriods = 0
  #isTooSlow = false
  #queue: Uint8Array[] = nothing
  #queuedBytes = 0

  constructor(owner: Streams, transport: Transport, ended: OutgoingStream['ended']) {
    this.#owner = owner
    this.#transport = transport
    this.#ended = ended
  }

  open({ principal, feed, lastEventId }: OutgoingStream, preface: Uint8Array): void {
    if (this.#isOver()) return
    this.#owner.open.add(this)
    // A random start spreads the comments of streams that opened together.
    this.#commentIn(this.#owner.options.keepAliveMs * this.#owner.options.random())
    this.#write(preface)
    try {
      this.#unwatch = this.#owner.authenticator.watch(principal, (reason) => this.fail(reason))
      if (!this.#isOver()) this.#leaveFeed = feed.open(lastEventId, this)
    } catch (error) {
      this.fail(error)
    }
    // `watch` or `feed.open` may end the stream before it returns its clean-up function.
    if (this.#isOver()) this.#release()
  }

  send(event: FeedEvent): void {
    if (this.#isOver()) return
    if (typeof event.id === 'number') {
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
    if (known.code === 'internal') this.#owner.options.onError(error)
    this.finish(errorEvent(known))
  }

  end(): void {
    this.finish(noBytes)
  }

  /** Comments are a sign of life, and detect clients that left without closing. */
  #commentIn(ms: number): void {
    const { clock, keepAliveMs } = this.#owner.options
    this.#nextComment = clock.setTimeout(() => {
      this.#commentIn(keepAliveMs)
      if (!this.#isBlocked) this.#write(comment)
      else if (++this.#blockedPeriods > 1) this.#drop()
    }, ms)
  }

  drained(): void {
    if (!this.#isBlocked || this.#isOver()) return
    this.#isBlocked = false
    this.#blockedPeriods = 0
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
    this.#release()
    this.#owner.options.clock.clearTimeout(this.#closeTimer)
    this.#owner.forget(this)
    this.#ended(this.#isTooSlow ? 'dropped' : 'ended')
  }

  /** Writes the last event and ends the stream; a client that does not read it in time is cut off. */
  finish(lastEvent: Uint8Array): void {
    if (this.#isOver()) return
    this.#state = 'ending'
    this.#release()
    this.#owner.ending.add(this)
    if (lastEvent.length > 0) this.#transport.write(lastEvent)
    this.#transport.end()
    const { clock, lastWordsMs } = this.#owner.options
    this.#closeTimer = clock.setTimeout(() => {
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
    if (this.#queuedBytes + chunk.length > this.#owner.options.maxBufferedBytes) {
      this.#drop()
      return
    }
    if (this.#queue === nothing) this.#queue = []
    this.#queue.push(chunk)
    this.#count(chunk.length)
  }

  #count(bytes: number): void {
    this.#queuedBytes += bytes
    this.#owner.bufferedBytes += bytes
  }

  #drop(): void {
    this.#isTooSlow = true
    this.fail(
      new SignalboxError(
        'too_many',
        'The server ended this stream because its reader reads too slowly. Read faster, or open it again.',
      ),
    )
  }

  #release(): void {
    this.#queue = nothing
    this.#count(-this.#queuedBytes)
    this.#owner.open.delete(this)
    this.#owner.options.clock.clearTimeout(this.#nextComment)
    this.#leaveFeed?.()
    this.#unwatch?.()
    this.#leaveFeed = undefined
    this.#unwatch = undefined
  }
}

const noBytes: Uint8Array = new Uint8Array()

/** Many readers share an event, so it is encoded once. */
const encoded = new WeakMap<FeedEvent, Uint8Array>()

function bytesOf(event: FeedEvent): Uint8Array {
  const known = encoded.get(event)
  if (known !== undefined) return known
  const { id, type, data, text = JSON.stringify(data) } = event
  const bytes = Buffer.from(encodeEvent({ id, type, data: text }))
  encoded.set(event, bytes)
  return bytes
}

function errorEvent({ code, message }: SignalboxError): Uint8Array {
  return Buffer.from(encodeEvent({ type: 'error', data: JSON.stringify({ code, message }) }))
}
