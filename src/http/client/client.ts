import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { show, whole } from '../../core/options.ts'
import type { Route, Shape } from '../contract/index.ts'
import { type AuditClient, createAuditClient } from './audit.ts'
import { bodyText, type CallArguments, type CallOptions, targetOf } from './call.ts'
import {
  type ClientOptions,
  callSpan,
  type ResolvedClientOptions,
  resolveClientOptions,
} from './client-options.ts'
import { type ContentionClient, createContentionClient } from './contention.ts'
import { createDispatchClient, type DispatchClient } from './dispatch.ts'
import { createJobsClient, type JobsClient } from './jobs.ts'
import { createLocksClient, type LocksClient } from './locks.ts'
import { createMonitorClient, type MonitorClient } from './monitor.ts'
import { createOnceClient, type OnceClient } from './once.ts'
import { createOverviewClient, type OverviewClient } from './overview.ts'
import { decodeAnswer } from './reply.ts'
import { describe, exchange, isDistrusted, isUnsent, type OutgoingRequest } from './request.ts'
import { effort, type Progress, repetitionOf, retrying, type Try } from './retry.ts'
import type { Servers } from './servers.ts'
import { runStream, type StreamOptions } from './stream.ts'
import { createTokensClient, type TokensClient } from './tokens.ts'

/**
 * Speaks to a server, from Node or a browser. A call is typed by its route, has a deadline, and is tried again where
 * that is safe; what goes wrong is a SignalboxError with the same code as in process.
 */
export interface Client extends Disposable {
  /** Where the server is; of several, the one that is asked now. */
  readonly url: string
  readonly jobs: JobsClient
  readonly locks: LocksClient
  readonly once: OnceClient
  readonly monitor: MonitorClient
  readonly dispatch: DispatchClient
  readonly tokens: TokensClient
  readonly audit: AuditClient
  readonly contention: ContentionClient
  readonly overview: OverviewClient
  /** Asks one of the routes; answers its reply. */
  call<S extends Shape>(route: Route<S>, ...options: CallArguments<S>): Promise<S['reply']>
  /**
   * Reads a stream of events until `signal` aborts or the client is closed; connects again by itself when it breaks.
   * Rejects when there is no use in that: the token is not taken, or there is no such stream.
   */
  stream<S extends Shape>(route: Route<S>, options: StreamOptions<S>): Promise<void>
  /** Ends what is under way and refuses what comes later, with `closed`. */
  close(): void
}

const maxReplyBytes = 8 * 1_048_576

/**
 * Makes a client of the server at `url`, or of several servers that share a store; nothing is sent before it is asked
 * something.
 */
export function createClient(
  url: string | readonly string[] | undefined,
  options: ClientOptions = {},
): Client {
  return new HttpClient(resolveClientOptions(url, options))
}

class HttpClient implements Client {
  readonly #options: ResolvedClientOptions
  /** What ends each call and stream that is under way. */
  readonly #open = new Set<AbortController>()
  #closed: SignalboxError | undefined
  readonly jobs: JobsClient
  readonly locks: LocksClient
  readonly once: OnceClient
  readonly monitor: MonitorClient
  readonly dispatch: DispatchClient
  readonly tokens: TokensClient
  readonly audit: AuditClient
  readonly contention: ContentionClient
  readonly overview: OverviewClient

  constructor(options: ResolvedClientOptions) {
    this.#options = options
    this.jobs = createJobsClient(this, options.timeoutMs)
    this.locks = createLocksClient(this, options.timeoutMs)
    this.once = createOnceClient(this)
    this.monitor = createMonitorClient(this)
    this.dispatch = createDispatchClient(this)
    this.tokens = createTokensClient(this)
    this.audit = createAuditClient(this)
    this.contention = createContentionClient(this)
    this.overview = createOverviewClient(this)
  }

  get url(): string {
    return this.#options.servers.current
  }

  async call<S extends Shape>(route: Route<S>, ...[options]: CallArguments<S>): Promise<S['reply']> {
    const { params, query, body, ...how } = (options ?? {}) as CallOptions & Shape
    if (route.replyType === 'events')
      throw new SignalboxError('invalid_argument', `${route.path} is a stream: read it with client.stream.`)
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
    this.#closed ??= new SignalboxError(
      'closed',
      `This client of ${this.url} was closed; make another to go on.`,
    )
    for (const controller of this.#open) controller.abort(this.#closed)
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async #attempt(request: OutgoingRequest, limit: number): Promise<Try<unknown>> {
    try {
      return decodeAnswer(request, await exchange(this.#options.fetch, request, limit))
    } catch (error) {
      // Ended by the caller, the deadline or `close`; or more than may be read, which it would be again.
      if (request.signal.aborted || !isSignalboxError(error, 'store_unavailable')) throw error
      const passing = !isDistrusted(error)
      return { ok: false, error, passing, isUndone: isUnsent(error), isServerFault: true, afterMs: 0 }
    }
  }

  /** Does something that the caller's signal and the end of the client end. */
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
  throw new SignalboxError(
    'invalid_argument',
    `idempotencyKey must be 1 to 255 visible ASCII characters without spaces, not ${show(key)}.`,
    { details: { option: 'idempotencyKey' } },
  )
}

function timedOut(
  request: OutgoingRequest,
  timeoutMs: number,
  servers: Servers,
  progress: Progress,
): SignalboxError {
  const { last, tries } = progress
  const doubt = request.route.mutates ? ' Whether it was done is not known.' : ''
  const before = last === undefined ? '' : ` ${effort(servers, progress)} Before that: ${last.message}`
  return new SignalboxError(
    'timeout',
    `${describe(request)} had no whole answer within ${timeoutMs} ms.${doubt}${before}`,
    { cause: last, details: { route: request.route.id, timeoutMs, tries } },
  )
}
