import { SignalboxError } from '../../core/errors.ts'
import { createEventParser, type ParsedEvent, type Route } from '../contract/index.ts'
import type { ResolvedClientOptions } from './client-options.ts'
import { decodeAnswer } from './reply.ts'
import { describe, mediaType, type OutgoingRequest, readAnswer, readChunk, send } from './request.ts'

/** Who is told what a stream brings. */
export interface StreamCallbacks {
  /** Gets each event, in order. What it throws ends the stream. */
  readonly onEvent: (event: StreamEvent) => void
  /** Told at each connection. What came between the last one and this may be lost unless the stream resumes by ids. */
  readonly onOpen?: (() => void) | undefined
}

/** An event of a stream. */
export interface StreamEvent {
  readonly type: string
  /** What Last-Event-ID would say now; '' when the stream cannot be resumed. */
  readonly id: string
  readonly data: unknown
}

/** Where a stream stands between its connections. */
export interface Place {
  lastEventId: string
  retryMs: number | undefined
}

/** What is read of an answer that refuses the stream. */
const maxRefusalBytes = 1_048_576

/** Why a connection came to its end. */
export interface Broken {
  readonly error: SignalboxError
  /** How long the server asked to stay away. */
  readonly afterMs: number
  /** There is no use in another. */
  readonly isFinal: boolean
}

/** One connection, from its request to its end. */
export class Connection {
  readonly #client: ResolvedClientOptions
  readonly #target: { readonly route: Route; readonly url: string }
  readonly #place: Place
  readonly #silenceMs: number
  readonly #callbacks: StreamCallbacks
  #openedAt: number | undefined
  #heardAt = 0
  /** What a callback threw: the caller's own error, and none of the connection's. */
  #thrown: { readonly error: unknown } | undefined

  constructor(
    client: ResolvedClientOptions,
    target: { readonly route: Route; readonly url: string },
    place: Place,
    silenceMs: number,
    callbacks: StreamCallbacks,
  ) {
    this.#client = client
    this.#target = target
    this.#place = place
    this.#silenceMs = silenceMs
    this.#callbacks = callbacks
  }

  get lastedMs(): number {
    return this.#openedAt === undefined ? 0 : performance.now() - this.#openedAt
  }

  /** Reads to its end: undefined when it was told to end, else why it broke. Throws what a callback threw. */
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
      // Whatever is still open of it.
      controller.abort()
    }
  }

  #request(): { headers: Readonly<Record<string, string>>; body: undefined } {
    const { lastEventId } = this.#place
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
    this.#heardAt = this.#openedAt
    this.#call(() => this.#callbacks.onOpen?.())
    const { lastEventId } = this.#place
    const parser = createEventParser((event) => this.#tell(request, event), { lastEventId })
    const reader = response.body!.getReader()
    for (;;) {
      const chunk = await readChunk(reader, request)
      if (chunk === undefined) return { error: ended(request), afterMs: 0, isFinal: false }
      this.#heardAt = performance.now()
      try {
        parser.push(chunk)
      } finally {
        this.#place.lastEventId = parser.lastEventId
        this.#place.retryMs = parser.retryMs ?? this.#place.retryMs
      }
    }
  }

  #tell(request: OutgoingRequest, { id, type, data }: ParsedEvent): void {
    const value = parse(data)
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

  /** An answer that is no stream. Trouble of the server's passes; a refusal, a redirect, a page stays what it is. */
  async #refused(request: OutgoingRequest, response: Response): Promise<Broken> {
    const outcome = decodeAnswer(request, await readAnswer(response, request, maxRefusalBytes))
    const { status } = response
    const isFinal = status < 500 && status !== 408 && status !== 429
    return outcome.ok
      ? { error: noStream(request), afterMs: 0, isFinal }
      : { error: outcome.error, afterMs: outcome.afterMs, isFinal }
  }

  /** Ends the connection when nothing was heard for so long; answers the function that ends the watch. */
  #watch(controller: AbortController): () => void {
    const begunAt = performance.now()
    let timer: ReturnType<typeof setTimeout>
    const check = () => {
      // Until it is open it has as long as any call.
      const isOpen = this.#openedAt !== undefined
      const dueAt = isOpen ? this.#heardAt + this.#silenceMs : begunAt + this.#client.timeoutMs
      const leftMs = dueAt - performance.now()
      if (leftMs <= 0) return controller.abort(silent(this.#target, isOpen))
      timer = setTimeout(check, Math.ceil(leftMs))
    }
    check()
    return () => clearTimeout(timer)
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function ended(request: OutgoingRequest): SignalboxError {
  return new SignalboxError('store_unavailable', `${describe(request)}: the server ended the stream.`)
}

function silent(target: Pick<OutgoingRequest, 'route' | 'url'>, isOpen: boolean): SignalboxError {
  const what = isOpen ? 'nothing was heard on the stream for too long' : 'the stream was not opened in time'
  return new SignalboxError('timeout', `${describe(target)}: ${what}.`)
}

function garbled(request: OutgoingRequest): SignalboxError {
  return new SignalboxError('store_unavailable', `${describe(request)}: an event of the stream is not JSON.`)
}

function noStream(request: OutgoingRequest): SignalboxError {
  return new SignalboxError('store_unavailable', `${describe(request)} was answered, but not with a stream.`)
}
