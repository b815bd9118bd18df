import { type Clock, systemClock } from '../../../core/clock.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import { encodeRetry } from '../../contract/index.ts'
import type { Authenticator, OutgoingStream } from '../call.ts'
import { EventStream, type StreamKeeper } from './event-stream.ts'
import { createWheel, type Wheel } from './timer-wheel.ts'
import { bodyTransport, type Transport } from './transport.ts'

/**
 * Streams of server-sent events, all that a server has open.
 *
 *     feed ──send──▶ stream ──write──▶ transport ──▶ reader
 *                      └─ it says no: wait here, up to maxBufferedBytes; above, or still no a period later: told why, cut
 *
 * An idle stream is a few small objects. Timers are shared, an event is put into bytes once for all its readers, and
 * nothing here keeps the request. A reader that does not read has a bounded queue of its own and holds up nobody.
 *
 * A stream ends when its client has gone, its feed fails, its token counts no more, it reads too slowly, or the server
 * shuts down. Whoever can still read is told why: `error { code, message }`, or when to come again.
 */
export interface Streams {
  /** Streams to a transport whose head has been written; calls `ended`, the stream's own unless given, once it is over. */
  serve(outgoing: OutgoingStream, transport: Transport, ended?: OutgoingStream['ended']): void
  /** The same as the body of a `Response`. */
  toBody(outgoing: OutgoingStream, ended?: OutgoingStream['ended']): ReadableStream<Uint8Array>
  /** How many are open. */
  readonly size: number
  /** How much waits for readers that are slow, beyond what their connections have taken. */
  readonly bufferedBytes: number
  /** Tells every reader when to come again and ends its stream; later ones are told at once. */
  close(): Promise<void>
}

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
  /** Gets what a feed threw and nobody foresaw. @default prints it */
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
  clock: systemClock,
  random: Math.random,
}

export function createStreams(
  options: StreamsOptions & { readonly authenticator: Pick<Authenticator, 'watch'> },
): Streams {
  const { authenticator, ...rest } = options
  const given = withDefaults<Required<StreamsOptions>>('createStreams', rest, streamsDefaults)
  whole('createStreams.keepAliveMs', given.keepAliveMs, { min: 1, max: 2 ** 31 - 1 })
  whole('createStreams.maxBufferedBytes', given.maxBufferedBytes)
  whole('createStreams.retryMs', given.retryMs)
  whole('createStreams.lastWordsMs', given.lastWordsMs)
  return new OpenStreams(authenticator, given)
}

class OpenStreams implements Streams, StreamKeeper {
  readonly options: Required<StreamsOptions>
  readonly authenticator: Pick<Authenticator, 'watch'>
  readonly wheel: Wheel<EventStream>
  readonly ending = new Set<EventStream>()
  bufferedBytes = 0
  #whenEnded: PromiseWithResolvers<void> | undefined

  constructor(authenticator: Pick<Authenticator, 'watch'>, options: Required<StreamsOptions>) {
    this.authenticator = authenticator
    this.options = options
    this.wheel = createWheel<EventStream>({
      periodMs: options.keepAliveMs,
      visit: (stream) => stream.keepAlive(),
      clock: options.clock,
    })
  }

  get size(): number {
    return this.wheel.size
  }

  serve(outgoing: OutgoingStream, transport: Transport, ended = outgoing.ended): void {
    const stream = new EventStream(this, transport, ended)
    transport.attach(stream)
    if (this.#whenEnded === undefined) stream.open(outgoing, this.#retry(this.options.retryMs / 2))
    else stream.finish(this.#retry(this.options.retryMs))
  }

  toBody(outgoing: OutgoingStream, ended?: OutgoingStream['ended']): ReadableStream<Uint8Array> {
    const { transport, body } = bodyTransport()
    this.serve(outgoing, transport, ended)
    return body
  }

  close(): Promise<void> {
    if (this.#whenEnded === undefined) {
      this.#whenEnded = Promise.withResolvers<void>()
      // Many would come to the next server at once; a millisecond for each of them keeps that bearable.
      const fromMs = this.options.retryMs
      const spreadMs = Math.max(fromMs, this.size)
      for (const stream of this.wheel) stream.finish(this.#retry(fromMs, spreadMs))
      this.#checkEnd()
    }
    return this.#whenEnded.promise
  }

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
