import { SignalboxError } from '../../core/errors.ts'
import type { Route } from '../contract/index.ts'
import type { FetchFunction } from './client-options.ts'

/**
 * One request and its whole answer, as text. Only what the connection does is judged here: it cannot be made, it breaks,
 * it brings too much. Whatever `fetch` does with the signal, this ends when it aborts, with its reason.
 */
export interface OutgoingRequest {
  readonly route: Route
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly signal: AbortSignal
}

export interface Answer {
  readonly status: number
  /** Its media type in lower case, without parameters; '' when it has none. */
  readonly type: string
  readonly retryAfter: string | null
  readonly text: string
}

/** Throws the signal's reason, `store_unavailable` or `too_large`. */
export async function exchange(
  fetch: FetchFunction,
  request: OutgoingRequest,
  maxReplyBytes: number,
): Promise<Answer> {
  return readAnswer(await send(fetch, request), request, maxReplyBytes)
}

/** The answer's head, for who reads the body in a way of their own. */
export async function send(fetch: FetchFunction, request: OutgoingRequest): Promise<Response> {
  const { route, url, headers, body, signal } = request
  signal.throwIfAborted()
  // `async` turns what a foreign `fetch` throws into a rejection.
  const sent = (async () =>
    fetch(url, {
      method: route.method,
      headers: { ...headers },
      ...(body === undefined ? {} : { body }),
      // Elsewhere is not where the token was meant to go.
      redirect: 'manual',
      cache: 'no-store',
      signal,
    }))()
  try {
    return await orAborted(signal, sent)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw unreachable(request, error)
  }
}

/** The rest of the answer, up to so many bytes. */
export async function readAnswer(
  response: Response,
  request: OutgoingRequest,
  maxReplyBytes: number,
): Promise<Answer> {
  const text = await readText(response, request, maxReplyBytes)
  const { status, headers } = response
  return { status, type: mediaType(headers), retryAfter: headers.get('retry-after'), text }
}

export function mediaType(headers: Headers): string {
  return (headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase()
}

async function readText(response: Response, request: OutgoingRequest, maxBytes: number): Promise<string> {
  if (response.body === null) return ''
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  try {
    for (;;) {
      const chunk = await readChunk(reader, request)
      if (chunk === undefined) return text + decoder.decode()
      size += chunk.byteLength
      if (size > maxBytes) throw tooLarge(request, maxBytes)
      text += decoder.decode(chunk, { stream: true })
    }
  } finally {
    // After the end this is nothing; before it, what is left is of no use. Whether the connection minds is its affair.
    reader.cancel().catch(() => undefined)
  }
}

/** The next bytes of a body; undefined at its end. Throws the signal's reason, or `store_unavailable`. */
export async function readChunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  request: OutgoingRequest,
): Promise<Uint8Array | undefined> {
  try {
    const { done, value } = await orAborted(request.signal, reader.read())
    return done ? undefined : value
  } catch (error) {
    if (request.signal.aborted) throw request.signal.reason
    throw cutShort(request, error)
  }
}

/** The promise, or the signal's reason as soon as it aborts. */
async function orAborted<Value>(signal: AbortSignal, promise: Promise<Value>): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** The request as messages name it: without its query, which is the caller's. */
export function describe({ route, url }: Pick<OutgoingRequest, 'route' | 'url'>): string {
  return `${route.method} ${route.path} at ${new URL(url).origin}`
}

function unreachable(request: OutgoingRequest, error: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)}: the server cannot be reached${reasonOf(error)}. Does it run, and is the address right?`,
    { cause: error, details: { route: request.route.id } },
  )
}

function cutShort(request: OutgoingRequest, error: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)}: the connection broke in the middle of the answer${reasonOf(error)}.`,
    { cause: error, details: { route: request.route.id } },
  )
}

function tooLarge(request: OutgoingRequest, maxReplyBytes: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `${describe(request)}: the answer is larger than ${maxReplyBytes} bytes and was not read. Ask for less at once.`,
    { details: { route: request.route.id, maxReplyBytes } },
  )
}

function reasonOf(error: unknown): string {
  const code = systemCode(error)
  return code === undefined ? '' : ` (${code})`
}

/** The system's word for it, such as ECONNREFUSED: Node keeps it in the cause of its `fetch failed`. */
function systemCode(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { code?: unknown } }
  const reason = cause?.code ?? code
  return typeof reason === 'string' && /^\w{1,60}$/.test(reason) ? reason : undefined
}

/** There was no connection, so nothing was sent. */
const unsent: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN'],
  ...['EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT'],
])

/** Whether a failed exchange ended before anything was sent. False where the platform does not say. */
export function isUnsent({ cause }: SignalboxError): boolean {
  return unsent.has(systemCode(cause) ?? '')
}

/** Whether the server's certificate is not trusted: another try would not change that. */
export function isDistrusted({ cause }: SignalboxError): boolean {
  return /CERT|SIGNATURE|^ERR_TLS|^UNABLE_TO/.test(systemCode(cause) ?? '')
}
