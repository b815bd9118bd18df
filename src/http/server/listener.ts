import type { IncomingMessage, ServerResponse } from 'node:http'
import { SignalboxError } from '../../core/errors.ts'
import type { BodyLimits } from '../contract/index.ts'
import type { OutgoingText } from './call.ts'
import { beginRequest, endConnection } from './connection-order.ts'
import { ignore } from './lingering-close.ts'
import { requestIdOf } from './log/log.ts'
import { discardRest, NodeIncoming, type NodeListener } from './node-http.ts'
import { bodyTooLarge, readInTime } from './request/body.ts'
import type { InFlight } from './request/in-flight.ts'
import { replyProblem } from './request/problem.ts'
import { Unsent } from './request/unsent.ts'
import { notMounted, splitTarget, withoutBase } from './router.ts'
import type { Service } from './service.ts'
import { httpTransport } from './streams/transport.ts'

interface ListenerParts {
  readonly service: Pick<Service, 'api' | 'streams'>
  readonly inFlight: InFlight
  readonly basePath: string
  readonly requestTimeoutMs: number
}

/** A request with the properties that middlewares add. */
interface AppRequest extends IncomingMessage {
  /** The original `url`, from which a router may have removed its prefix. */
  readonly originalUrl?: unknown
  /** The parsed body, and its bytes. */
  readonly body?: unknown
  readonly rawBody?: unknown
}

/**
 * The API for apps with Node's request and response, such as Express, NestJS and Fastify. It runs as a middleware of
 * the app, so it accepts the work of earlier ones: a router that removed its prefix from `url`, a parser that has read
 * the body, a middleware that set headers or wrapped the response.
 */
export function createListener({
  service,
  inFlight,
  basePath,
  requestTimeoutMs,
}: ListenerParts): NodeListener {
  const unsent = new Unsent()
  const leave = () => inFlight.leave()

  /** Rejects only with errors of the app's wrappers around the response. */
  async function serve(request: IncomingMessage, response: ServerResponse, url: string): Promise<void> {
    if (!beginRequest(request, response)) return
    inFlight.enter()
    // Every response emits `close` once, even if the client left.
    if (response.closed) leave()
    else response.once('close', leave)
    const requestId = requestIdOf(request.headers['x-request-id'] as string | undefined)
    const outgoing = await service.api.answer(
      new AppIncoming(request, response, url, requestTimeoutMs),
      requestId,
    )
    if (!('feed' in outgoing)) {
      write(request, response, outgoing, requestId)
      unsent.watch(response)
      return
    }
    if (isOver(response)) return outgoing.ended('dropped')
    try {
      setHeaders(response, outgoing.headers, requestId)
      response.writeHead(outgoing.status)
    } catch (error) {
      outgoing.ended('dropped')
      throw error
    }
    service.streams.serve(outgoing, httpTransport(response))
  }

  return (request, response, next) => {
    const [asked, query] = splitTarget(targetOf(request))
    const path = withoutBase(asked, basePath)
    if (path !== undefined) serve(request, response, path + query).catch(next ?? (() => response.destroy()))
    else if (next !== undefined) next()
    else if (beginRequest(request, response))
      write(request, response, replyProblem(notMounted(asked, basePath)))
  }
}

function targetOf(request: AppRequest): string {
  return typeof request.originalUrl === 'string' ? request.originalUrl : (request.url ?? '')
}

/** A request of an app, whose parser may have read the body. */
class AppIncoming extends NodeIncoming {
  readonly #request: AppRequest
  readonly #timeoutMs: number

  constructor(request: AppRequest, response: ServerResponse, url: string, timeoutMs: number) {
    super(request, response, url)
    this.#request = request
    this.#timeoutMs = timeoutMs
  }

  override async readBody(limits: BodyLimits): Promise<Uint8Array> {
    const { headers, readableDidRead } = this.#request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (hasBody && readableDidRead) return recoverBody(this.#request, limits)
    return readInTime(this.#timeoutMs, super.readBody(limits))
  }
}

/** Recovers a body that a parser has read, from its bytes or its parsed value. */
function recoverBody({ rawBody, body }: AppRequest, { maxBytes }: BodyLimits): Uint8Array {
  const left = rawBody ?? body
  if (left === undefined) throw bodyAlreadyRead()
  const bytes = left instanceof Uint8Array ? left : Buffer.from(textOf(left))
  if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes)
  return bytes
}

function textOf(left: unknown): string {
  return typeof left === 'string' ? left : JSON.stringify(left)
}

function bodyAlreadyRead(): SignalboxError {
  return new SignalboxError(
    'internal',
    'Another middleware of this app has read the body of the request. Mount Signalbox before body parsers.',
  )
}

/** Whether the client has left, or another middleware has answered. */
function isOver(response: ServerResponse): boolean {
  return response.destroyed || response.headersSent
}

/** Sets each header by itself, because wrappers around a response may not support Node's other forms. */
function setHeaders(
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
  requestId: string | undefined,
): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  if (requestId !== undefined) response.setHeader('x-request-id', requestId)
}

function write(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: OutgoingText,
  requestId?: string,
): void {
  if (isOver(response)) return
  response.on('error', ignore)
  setHeaders(response, headers, requestId)
  // A 304 has no body, so its length would be wrong.
  if (status !== 304) response.setHeader('content-length', Buffer.byteLength(body))
  response.writeHead(status)
  if (!response.shouldKeepAlive) endConnection(request, response)
  response.end(body)
  if (!request.complete) discardRest(request, response)
}
