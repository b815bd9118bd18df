import { type Clock, patientClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import { encodeComment, encodeEvent, encodeRetry } from '../../contract/index.ts'
import type { Authenticator, FeedEvent, FeedReader, OutgoingStream } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { bodyTransport, type Transport, type TransportOwner } from './transport.ts'

/** How streams are kept. */
export interface StreamsOptions {
  /** How often a comment is sent as a sign of life. @default 15_000 */
  readonly keepAliveMs?: number
  /** How much may wait for a reader beyond what its connection takes. @default 262_144 */
  readonly maxBufferedBytes?: number
  /** How long readers are asked to wait before they connect again, give or take a half. @default 2_000 */
  readonly retryMs?: number
  /** How long a reader may take to read the last words. @default 2_000 */
  readonly lastWordsMs?: number
  /** Gets unexpected errors of a feed. @default prints it */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
  readonly random?: () => number
}

export const streamsDefaults: Required<StreamsOptions> = {
  keepAliveMs: 15_000,
  maxBufferedBytes: 262_144,
  retryMs: 2_000,
  lastWordsMs: 2_000,
  onError: (error) => console.error('A stream of events failed:', error),
  clock: patientClock,
  random: Math.random,
}

/**
 * Streams of server-sent events, all that a server has open.
 *
 *     feed ──send──▶ stream ──write──▶ transport ──▶ reader
 *                      └─ it says no: wait here, up to maxBufferedBytes; above, or still no a period later: told why, cut
 *
 * An idle stream is a few small objects and a timer. An event is encoded once for all its readers, and nothing here
 * keeps the request. A reader that does not read has its own bounded queue and delays no other reader.
 *
 * A stream ends when its client has gone, its feed fails, its token is no longer valid, it reads too slowly, or the
 * server shuts down. A client that can still read gets the reason: `error { code, message }`, or when to come again.
 */
export class Streams {
  readonly options: Required<StreamsOptions>
  readonly authenticator: Pick<Authenticator, 'watch'>
  readonly open: Set<EventStream> = new Set()
  /** Those that have had their last word and are not closed yet. */
  readonly ending: Set<EventStream> = new Set()
  /** How much waits for readers that are slow, beyond what their connections have taken. */
  bufferedBytes = 0
  #whenEnded: PromiseWithResolvers<void> | undefined

  constructor(options: StreamsOptions & { readonly authenticator: Pick<Authenticator, 'watch'> }) {
    const { authenticator, ...rest } = options
    const given = withDefaults<Required<StreamsOptions>>('streams', rest, streamsDefaults)
    whole('streams.keepAliveMs', given.keepAliveMs, { min: 1, max: 2 ** 31 - 1 })
    whole('streams.maxBufferedBytes', given.maxBufferedBytes)
    whole('streams.retryMs', given.retryMs)
    whole('streams.lastWordsMs', given.lastWordsMs)
    this.options = given
    this.authenticator = authenticator
  }

  /** How many are open. */
  get size(): number {
    return this.open.size
  }

  /** Streams to a transport whose head has been written; calls `ended`, the stream's own unless given, once it is over. */
  serve(
    outgoing: OutgoingStream,
    transport: Transport,
    ended: OutgoingStream['ended'] = outgoing.ended,
  ): void {
    const stream = new EventStream(this, transport, ended)
    transport.attach(stream)
    if (this.#whenEnded === undefined) stream.open(outgoing, this.#retry(this.options.retryMs / 2))
    else stream.finish(this.#retry(this.options.retryMs))
  }

  /** The same as the body of a `Response`. */
  toBody(outgoing: OutgoingStream, ended?: OutgoingStream['ended']): ReadableStream<Uint8Array> {
    const { transport, body } = bodyTransport()
    this.serve(outgoing, transport, ended)
    return body
  }

  /** Tells every reader when to come again and ends its stream; later ones are told at once. */
  close(): Promise<void> {
    if (this.#whenEnded === undefined) {
      this.#whenEnded = Promise.withResolvers<void>()
      // Many would come to the next server at once; a millisecond for each of them keeps that bearable.
      const fromMs = this.options.retryMs
      const spreadMs = Math.max(fromMs, this.size)
      for (const stream of [...this.open]) stream.finish(this.#retry(fromMs, spreadMs))
      this.#checkEnd()
    }
    return this.#whenEnded.promise
  }

  /** One has been closed. */
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
 * One stream to one reader. Small, for there may be many thousands: what can be shared is in its owner, and nothing
 * here keeps the request it came from.
 */
export class EventStream implements FeedReader, TransportOwner {
  readonly #owner: Streams
  readonly #transport: Transport
  readonly #ended: OutgoingStream['ended']
  #state: 'open' | 'ending' | 'closed' = 'open'
  #nextComment: unknown
  #leaveFeed: (() => void) | undefined
  #unwatch: (() => void) | undefined
  #lingering: unknown
  /** The id sent last: none may come twice or fall. */
  #lastId = -1
  /** The transport said no; what comes now waits in the queue. */
  #isBlocked = false
  /** Comments in a row that found it so. */
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
    // Streams that came at once do not all get their comments at once.
    this.#commentIn(this.#owner.options.keepAliveMs * this.#owner.options.random())
    this.#write(preface)
    try {
      this.#unwatch = this.#owner.authenticator.watch(principal, (reason) => this.fail(reason))
      if (!this.#isOver()) this.#leaveFeed = feed.open(lastEventId, this)
    } catch (error) {
      this.fail(error)
    }
    // Either may have ended the stream before it said how to let go of it.
    if (this.#isOver()) this.#letGo()
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
    this.finish(lastWords(known))
  }

  end(): void {
    this.finish(noWords)
  }

  /** A sign of life; it detects clients that left without closing. */
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
    this.#letGo()
    this.#owner.options.clock.clearTimeout(this.#lingering)
    this.#owner.forget(this)
    this.#ended(this.#isTooSlow ? 'dropped' : 'ended')
  }

  /** Writes the last event and ends the stream; a client that does not read it in time is cut off. */
  finish(words: Uint8Array): void {
    if (this.#isOver()) return
    this.#state = 'ending'
    this.#letGo()
    this.#owner.ending.add(this)
    if (words.length > 0) this.#transport.write(words)
    this.#transport.end()
    const { clock, lastWordsMs } = this.#owner.options
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

  #letGo(): void {
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
