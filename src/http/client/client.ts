import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { show, whole } from '../../core/options.ts'
import { mutates, type Route, type Shape } from '../contract/index.ts'
import {
  type ClientOptions,
  callSpan,
  type ResolvedClientOptions,
  resolveClientOptions,
} from './client-options.ts'
import { createModuleClients, type ModuleClients } from './module-clients.ts'
import {
  bodyText,
  type CallArguments,
  type CallOptions,
  decodeAnswer,
  describe,
  exchange,
  isDistrusted,
  isUnsent,
  type OutgoingRequest,
  targetOf,
} from './request.ts'
import { effort, type Progress, repetitionOf, retrying, type Servers, type Try } from './retry.ts'
import { runStream, type StreamOptions } from './stream.ts'

/**
 * Calls a server from Node or a browser. The route gives a call its types. A call has a deadline, and the client
 * retries it if that is safe. Failures are SignalboxErrors with the same codes as in process.
 */
export interface Client extends ModuleClients, Disposable {
  /** The address of the server; of several, the current one. */
  readonly url: string
  /** Calls a route; resolves with its reply. */
  call<S extends Shape>(route: Route<S>, ...options: CallArguments<S>): Promise<S['reply']>
  /**
   * Reads a stream of events until `signal` aborts or the client is closed. Reconnects by itself. Rejects when a
   * reconnect cannot help: the server refuses the token, or has no such stream.
   */
  stream<S extends Shape>(route: Route<S>, options: StreamOptions<S>): Promise<void>
  /** Ends open calls and streams, and refuses later ones, with `closed`. */
  close(): void
}

const maxReplyBytes = 8 * 1_048_576

/**
 * Creates a client of the server at `url`, or of several servers that share a store. It sends nothing before the first
 * call.
 */
export function createClient(
  url: string | readonly string[] | undefined,
  options: ClientOptions = {},
): Client {
  const resolved = resolveClientOptions(url, options)
  const client = new HttpClient(resolved)
  return Object.assign(client, createModuleClients(client, resolved.timeoutMs))
}

/** Calls and streams. `createClient` adds the methods of the modules. */
class HttpClient implements Omit<Client, keyof ModuleClients> {
  readonly #options: ResolvedClientOptions
  /** The open calls and streams. */
  readonly #open = new Set<AbortController>()
  #closed: SignalboxError | undefined

  constructor(options: ResolvedClientOptions) {
    this.#options = options
  }

  get url(): string {
    return this.#options.servers.current
  }

  async call<S extends Shape>(route: Route<S>, ...[options]: CallArguments<S>): Promise<S['reply']> {
    const { params, query, body, ...how } = (options ?? {}) as CallOptions & Shape
    if (route.replyType === 'events') throw invalidArgument(`${route.path} is a stream: use client.stream.`)
    const timeoutMs =
      how.timeoutMs === undefined ? this.#options.timeoutMs : callSpan('timeoutMs', how.timeoutMs)
    const repetition = repetitionOf(route as Route)
    const key = how.idempotencyKey ?? (repetition === 'keyed' ? createId() : undefined)
    const limit = whole('maxReplyBytes', how.maxReplyBytes ?? maxReplyBytes, { min: 1 })
    const sent = bodyText(body)
    const headers = {
      ...this.#options.headers,
      accept: 'application/json, application/problem+json',
      ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': keyText(key) }),
    }
    const target = targetOf(route as Route, params, query)
    const { servers, retries, backoff } = this.#options

    const begunAt = performance.now()
    const progress: Progress = { begunAt, server: servers.current, tries: 0, last: undefined }
    const deadline = begunAt + timeoutMs
    return this.#during(how.signal, async (controller) => {
      const { signal } = controller
      const requestTo = (server: string): OutgoingRequest => ({
        ...{ route: route as Route, url: server + target, headers, body: sent, signal },
      })
      const timer = setTimeout(() => {
        controller.abort(timedOut(requestTo(progress.server), timeoutMs, servers, progress))
        servers.leave(progress.server)
      }, timeoutMs)
      try {
        const isRepeatable = repetition === 'safe' || key !== undefined
        const plan = { servers, isRepeatable, retries, backoff, deadline, signal }
        return await retrying(plan, progress, (server) => this.#attempt(requestTo(server), limit))
      } finally {
        clearTimeout(timer)
      }
    })
  }

  stream<S extends Shape>(route: Route<S>, options: StreamOptions<S>): Promise<void> {
    return this.#during(options.signal, (controller) =>
      runStream(this.#options, controller.signal, route as Route, options as StreamOptions<Shape>),
    )
  }

  close(): void {
    this.#closed ??= new SignalboxError('closed', `This client of ${this.url} is closed. Create another one.`)
    for (const controller of this.#open) controller.abort(this.#closed)
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async #attempt(request: OutgoingRequest, limit: number): Promise<Try<unknown>> {
    try {
      return decodeAnswer(request, await exchange(this.#options.fetch, request, limit))
    } catch (error) {
      // The caller, the deadline or `close` ended the call; or the reply is too large, and would be so again.
      if (request.signal.aborted || !isSignalboxError(error, 'store_unavailable')) throw error
      const passing = !isDistrusted(error)
      return { ok: false, error, passing, isUndone: isUnsent(error), isServerFault: true, afterMs: 0 }
    }
  }

  /** Runs `act` until the caller's signal or `close` ends it. */
  async #during<Result>(
    signal: AbortSignal | undefined,
    act: (controller: AbortController) => Promise<Result>,
  ): Promise<Result> {
    if (this.#closed !== undefined) throw this.#closed
    const controller = new AbortController()
    const abort = () => controller.abort(signal!.reason)
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort)
    this.#open.add(controller)
    try {
      return await act(controller)
    } finally {
      this.#open.delete(controller)
      signal?.removeEventListener('abort', abort)
    }
  }
}

function keyText(key: unknown): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw invalidArgument(
    `idempotencyKey must be 1 to 255 visible ASCII characters without spaces, not ${show(key)}.`,
    'idempotencyKey',
  )
}

function timedOut(
  request: OutgoingRequest,
  timeoutMs: number,
  servers: Servers,
  progress: Progress,
): SignalboxError {
  const { last, tries } = progress
  const doubt = mutates(request.route) ? ' It is unknown whether the request was processed.' : ''
  const before = last === undefined ? '' : ` ${effort(servers, progress)} Before that: ${last.message}`
  return new SignalboxError(
    'timeout',
    `${describe(request)} had no complete answer within ${timeoutMs} ms.${doubt}${before}`,
    { cause: last, details: { route: request.route.id, timeoutMs, tries } },
  )
}
