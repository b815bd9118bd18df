import { type Backoff, backoffMs } from '../../core/backoff.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import { whole } from '../../core/options.ts'
import { EventParser, type ParsedEvent, type Route, type Shape } from '../contract/index.ts'
import type { ResolvedClientOptions } from './client-options.ts'
import {
  type CallInput,
  decodeAnswer,
  describe,
  mediaType,
  type OutgoingRequest,
  readAnswer,
  readChunk,
  send,
  targetOf,
} from './request.ts'
import { pause } from './retry.ts'

/**
 * A stream of server-sent events that outlives its connections.
 *
 *     connect ──200──▶ read ──cut, silence, no more──▶ wait ──▶ connect, with Last-Event-ID
 *        └── 401, 403, 404: the end        └── jittered, longer each time; as the server asked when it did
 *
 * The client holds one chunk and one event at a time. A proxy that lost its connection neither sends nor closes. So
 * silence counts as a cut, because the server sends something at least every few seconds.
 */
export type StreamOptions<S extends Shape> = Omit<CallInput<S>, 'body'> &
  StreamCallbacks & {
    /** Ends the stream; the promise then resolves. */
    readonly signal?: AbortSignal | undefined
    /** Called when a connection broke, with the error and the wait until the next. */
    readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
    /** A connection without a byte for this long counts as cut. @default 45_000 */
    readonly silenceMs?: number | undefined
    /** Resumes after this event of an earlier stream. @default starts at the present */
    readonly lastEventId?: string | undefined
  }

/**
 * The wait before the next connection. The first wait is short, so that readers hardly notice a restart of the server.
 */
const reconnect: Backoff = { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 30_000 }
/** After a connection that lasted this long, the next wait is short again. */
const goodMs = 5_000
/** Limits of the wait that a server asks for. */
const minWaitMs = 50
const maxWaitMs = 3_600_000

/** Reads the stream until the signal aborts; rejects when a reconnect cannot help. */
export async function runStream(
  client: ResolvedClientOptions,
  signal: AbortSignal,
  route: Route,
  options: StreamOptions<Shape>,
): Promise<void> {
  if (route.replyType !== 'events') throw invalidArgument(`${route.path} is not a stream: use client.call.`)
  const silenceMs = whole('silenceMs', options.silenceMs ?? 45_000, { min: 1, max: 2 ** 31 - 1 })
  const { params, query } = options as Shape
  const target = targetOf(route, params, query)
  const position: StreamPosition = { lastEventId: options.lastEventId ?? '', retryMs: undefined }
  const { servers } = client
  let failedInRound = 0
  let failedRounds = 0
  for (;;) {
    const server = servers.current
    const connection = new Connection(client, { route, url: server + target }, position, silenceMs, options)
    const broken = await connection.run(signal)
    if (broken === undefined) return
    if (broken.isFinal) throw broken.error
    if (connection.lastedMs >= goodMs) failedInRound = failedRounds = 0
    servers.leave(server)
    const isRoundOver = ++failedInRound >= servers.size
    if (isRoundOver) failedInRound = 0
    const retryInMs = isRoundOver
      ? waitMs(position.retryMs, ++failedRounds, broken.afterMs)
      : Math.random() * reconnect.baseMs
    options.onBreak?.(broken.error, retryInMs)
    try {
      await pause(retryInMs, signal)
    } catch {
      return
    }
  }
}

/** Starts at the wait that the server asked for, with jitter, so that its readers do not all return at once. */
function waitMs(retryMs: number | undefined, failureCount: number, afterMs: number): number {
  const baseMs = Math.max(minWaitMs, retryMs ?? reconnect.baseMs)
  const plan = { ...reconnect, baseMs, maxMs: Math.max(reconnect.maxMs, baseMs * (1 + reconnect.jitter)) }
  return Math.min(maxWaitMs, afterMs + backoffMs(plan, failureCount))
}

/** The callbacks of a stream. */
export interface StreamCallbacks {
  /** Gets each event, in order. If it throws, the stream ends with that error. */
  readonly onEvent: (event: StreamEvent) => void
  /** Called for each connection. Events between two connections are lost unless the stream resumes by ids. */
  readonly onOpen?: (() => void) | undefined
}

/** An event of a stream. */
export interface StreamEvent {
  readonly type: string
  /** The value for Last-Event-ID; '' when the stream cannot be resumed. */
  readonly id: string
  readonly data: unknown
}

/** The state that a stream keeps between its connections. */
interface StreamPosition {
  lastEventId: string
  retryMs: number | undefined
}

/** The most bytes of a refusal that the client reads. */
const maxRefusalBytes = 1_048_576

/** Why a connection ended. */
export interface Broken {
  readonly error: SignalboxError
  /** How long the server asked to wait. */
  readonly afterMs: number
  /** Another connection cannot help. */
  readonly isFinal: boolean
}

/** One connection, from its request to its end. */
export class Connection {
  readonly #client: ResolvedClientOptions
  readonly #target: { readonly route: Route; readonly url: string }
  readonly #position: StreamPosition
  readonly #silenceMs: number
  readonly #callbacks: StreamCallbacks
  #openedAt: number | undefined
  #lastByteAt = 0
  /** An error that a callback threw: an error of the caller, not of the connection. */
  #thrown: { readonly error: unknown } | undefined

  constructor(
    client: ResolvedClientOptions,
    target: { readonly route: Route; readonly url: string },
    position: StreamPosition,
    silenceMs: number,
    callbacks: StreamCallbacks,
  ) {
    this.#client = client
    this.#target = target
    this.#position = position
    this.#silenceMs = silenceMs
    this.#callbacks = callbacks
  }

  get lastedMs(): number {
    return this.#openedAt === undefined ? 0 : performance.now() - this.#openedAt
  }

  /**
   * Reads to the end. Returns undefined if the signal ended the connection, else why it broke. Throws callback errors.
   */
  async run(signal: AbortSignal): Promise<Broken | undefined> {
    if (signal.aborted) return undefined
    const controller = new AbortController()
    const end = () => controller.abort(signal.reason)
    signal.addEventListener('abort', end)
    const stopWatch = this.#watch(controller)
    try {
      return await this.#read({ ...this.#target, ...this.#request(), signal: controller.signal })
    } catch (error) {
      if (this.#thrown !== undefined) throw this.#thrown.error
      if (signal.aborted) return undefined
      return { error: error as SignalboxError, afterMs: 0, isFinal: false }
    } finally {
      stopWatch()
      signal.removeEventListener('abort', end)
      controller.abort()
    }
  }

  #request(): { headers: Readonly<Record<string, string>>; body: undefined } {
    const { lastEventId } = this.#position
    const headers = {
      ...this.#client.headers,
      accept: 'text/event-stream, application/problem+json',
      ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
    }
    return { headers, body: undefined }
  }

  async #read(request: OutgoingRequest): Promise<Broken> {
    const response = await send(this.#client.fetch, request)
    if (response.status !== 200 || mediaType(response.headers) !== 'text/event-stream')
      return this.#refused(request, response)
    this.#openedAt = performance.now()
    this.#lastByteAt = this.#openedAt
    this.#call(() => this.#callbacks.onOpen?.())
    const { lastEventId } = this.#position
    const parser = new EventParser((event) => this.#deliver(request, event), { lastEventId })
    const reader = response.body!.getReader()
    for (;;) {
      const chunk = await readChunk(reader, request)
      if (chunk === undefined) return { error: ended(request), afterMs: 0, isFinal: false }
      this.#lastByteAt = performance.now()
      try {
        parser.push(chunk)
      } finally {
        this.#position.lastEventId = parser.lastEventId
        this.#position.retryMs = parser.retryMs ?? this.#position.retryMs
      }
    }
  }

  #deliver(request: OutgoingRequest, { id, type, data }: ParsedEvent): void {
    const value = parseJson(data)
    if (value === undefined) throw garbled(request)
    this.#call(() => this.#callbacks.onEvent({ id, type, data: value }))
  }

  #call(callback: () => void): void {
    try {
      callback()
    } catch (error) {
      this.#thrown = { error }
      throw error
    }
  }

  /** Handles an answer that is not a stream. Server errors may go away; a refusal, a redirect or a page does not. */
  async #refused(request: OutgoingRequest, response: Response): Promise<Broken> {
    const outcome = decodeAnswer(request, await readAnswer(response, request, maxRefusalBytes))
    const { status } = response
    const isFinal = status < 500 && status !== 408 && status !== 429
    return outcome.ok
      ? { error: noStream(request), afterMs: 0, isFinal }
      : { error: outcome.error, afterMs: outcome.afterMs, isFinal }
  }

  /** Aborts a connection that is silent for too long. The returned function stops this watch. */
  #watch(controller: AbortController): () => void {
    const begunAt = performance.now()
    let timer: ReturnType<typeof setTimeout>
    const check = () => {
      // Until the stream is open, the time limit of a call applies.
      const isOpen = this.#openedAt !== undefined
      const dueAt = isOpen ? this.#lastByteAt + this.#silenceMs : begunAt + this.#client.timeoutMs
      const leftMs = dueAt - performance.now()
      if (leftMs <= 0) return controller.abort(silent(this.#target, isOpen))
      timer = setTimeout(check, Math.ceil(leftMs))
    }
    check()
    return () => clearTimeout(timer)
  }
}

function ended(request: OutgoingRequest): SignalboxError {
  return new SignalboxError('store_unavailable', `${describe(request)}: the server ended the stream.`)
}

function silent(target: Pick<OutgoingRequest, 'route' | 'url'>, isOpen: boolean): SignalboxError {
  const what = isOpen
    ? 'the server sent nothing on the stream for too long'
    : 'the server did not open the stream in time'
  return new SignalboxError('timeout', `${describe(target)}: ${what}.`)
}

function garbled(request: OutgoingRequest): SignalboxError {
  return new SignalboxError('store_unavailable', `${describe(request)}: an event of the stream is not JSON.`)
}

function noStream(request: OutgoingRequest): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)}: the answer is not a stream of events.`,
  )
}
