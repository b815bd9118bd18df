import type { Duration } from '../../core/duration.ts'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import { show } from '../../core/options.ts'
import { errorOf, isProblem, type Problem, type Route, type Schema, type Shape } from '../contract/index.ts'
import type { FetchFunction } from './client-options.ts'
import { type FailedTry, retryAfterMs, type Try } from './retry.ts'

/**
 * One request and its whole answer, as text. This file handles only errors of the connection: it fails, breaks, or
 * sends too much. When the signal aborts, the exchange rejects with its reason, even if `fetch` ignores the signal.
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
  /** The media type in lower case, without parameters; '' if the answer has none. */
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

/** Sends the request; the caller reads the body. */
export async function send(fetch: FetchFunction, request: OutgoingRequest): Promise<Response> {
  const { route, url, headers, body, signal } = request
  signal.throwIfAborted()
  // `async` turns what a foreign `fetch` throws into a rejection.
  const sent = (async () =>
    fetch(url, {
      method: route.method,
      headers: { ...headers },
      ...(body === undefined ? {} : { body }),
      // The token must not go to another address.
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

/** Reads the body of the answer, up to `maxReplyBytes`. */
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
    // Cancels the rest of the body after an error. After the end this does nothing.
    reader.cancel().catch(() => undefined)
  }
}

/** Reads the next bytes of a body; undefined at its end. Throws the signal's reason, or `store_unavailable`. */
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

/** Resolves with the promise, or rejects with the signal's reason as soon as it aborts. */
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

/** Names a request in messages, without its query, which may contain the caller's data. */
export function describe({ route, url }: Pick<OutgoingRequest, 'route' | 'url'>): string {
  return `${route.method} ${route.path} at ${new URL(url).origin}`
}

function unreachable(request: OutgoingRequest, error: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)}: the server cannot be reached${reasonOf(error)}. Check that it runs and that the address is right.`,
    { cause: error, details: { route: request.route.id } },
  )
}

function cutShort(request: OutgoingRequest, error: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)}: the connection broke during the answer${reasonOf(error)}.`,
    { cause: error, details: { route: request.route.id } },
  )
}

function tooLarge(request: OutgoingRequest, maxReplyBytes: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `${describe(request)}: the answer has more than ${maxReplyBytes} bytes, so the client did not read it. Request a smaller page.`,
    { details: { route: request.route.id, maxReplyBytes } },
  )
}

function reasonOf(error: unknown): string {
  const code = systemCode(error)
  return code === undefined ? '' : ` (${code})`
}

/** The system's error code, such as ECONNREFUSED. Node's error `fetch failed` has it in its cause. */
function systemCode(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { code?: unknown } }
  const reason = cause?.code ?? code
  return typeof reason === 'string' && /^\w{1,60}$/.test(reason) ? reason : undefined
}

/** With these errors there was no connection, so nothing was sent. */
const unsent: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN'],
  ...['EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT'],
])

/** Whether an exchange failed before anything was sent. False if the platform does not report it. */
export function isUnsent({ cause }: SignalboxError): boolean {
  return unsent.has(systemCode(cause) ?? '')
}

/** Whether the platform does not trust the server's certificate. Another try would not help. */
export function isDistrusted({ cause }: SignalboxError): boolean {
  return /CERT|SIGNATURE|^ERR_TLS|^UNABLE_TO/.test(systemCode(cause) ?? '')
}

/**
 * The input of a call by its route: path parameters, query and body. The type forbids parts that the route does not
 * have, and requires parts with required fields.
 */
export type CallInput<S extends Shape> = Part<S, 'params'> & Part<S, 'query'> & BodyPart<S>

type Part<S extends Shape, Name extends keyof Shape> = Name extends keyof S
  ? Record<never, never> extends S[Name]
    ? { readonly [Key in Name]?: S[Name] | undefined }
    : { readonly [Key in Name]: S[Name] }
  : { readonly [Key in Name]?: undefined }

type BodyPart<S extends Shape> = 'body' extends keyof S
  ? Record<never, never> extends S['body']
    ? { readonly body?: S['body'] | JsonText | undefined }
    : { readonly body: S['body'] | JsonText }
  : { readonly body?: undefined }

/** Options of every call. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** @default the client's */
  readonly timeoutMs?: Duration | undefined
  /**
   * Identifies the request, so that its effect happens once even if it is sent twice. @default a new key for every call
   * that changes something, the same for all its tries
   */
  readonly idempotencyKey?: string | undefined
  /** The most bytes of a reply. @default 8 MiB */
  readonly maxReplyBytes?: number | undefined
}

/** The arguments after the route; optional if the route requires no input. */
export type CallArguments<S extends Shape> =
  Record<never, never> extends CallInput<S>
    ? [options?: CallInput<S> & CallOptions]
    : [options: CallInput<S> & CallOptions]

/** A body that is JSON text already. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** The path and query of a call. */
export function targetOf(route: Route, params: unknown, query: unknown): string {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    segment(name, (params as Record<string, unknown> | undefined)?.[name]),
  )
  mustBeObject('The query', query)
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries((query ?? {}) as Record<string, unknown>))
    if (value !== undefined && value !== null) search.set(name, String(value))
  return search.size === 0 ? path : `${path}?${search}`
}

function segment(name: string, value: unknown): string {
  // URL parsers resolve "." and ".." as path steps, even if they are percent-encoded.
  if (typeof value === 'string' && value !== '' && value !== '.' && value !== '..')
    return encodeURIComponent(value.toWellFormed())
  throw invalidArgument(`${name} must be text that can be part of a path, not ${show(value)}.`, name)
}

/** Refuses other values, because they would be sent as an empty object without an error. */
function mustBeObject(what: string, value: unknown): void {
  if (value === undefined || (typeof value === 'object' && value !== null)) return
  throw invalidArgument(`${what} must be an object, not ${show(value)}.`)
}

/** The body as text; undefined when there is none. */
export function bodyText(body: unknown): string | undefined {
  if (body === undefined) return undefined
  mustBeObject('The body', body)
  return body instanceof JsonText ? body.text : JSON.stringify(body)
}

/**
 * Turns an answer into the reply of the route, or into an error. A problem document comes from the server and keeps its
 * code. Anything else comes from a proxy, or from another program on that port.
 */
export function decodeAnswer(request: OutgoingRequest, answer: Answer): Try<unknown> {
  const { route } = request
  const { status, type, text } = answer
  const afterMs = retryAfterMs(answer.retryAfter)
  if (type === 'application/problem+json') {
    const problem = parseJson(text)
    if (!isProblem(problem)) return failed(garbled(request, answer), true, afterMs)
    const error = errorOf(problem, detailsOf(problem))
    return failed(error, isPassing(status, error), afterMs)
  }
  const schema = route.replies[status]
  if (schema === undefined) {
    const error = foreign(request, answer)
    return failed(error, isPassing(status, error), afterMs)
  }
  if (route.replyType === 'text') return { ok: true, reply: text }
  if (type !== 'application/json') return failed(foreign(request, answer), false, afterMs)
  const reply = parseJson(text)
  // Without a length in the headers, a broken connection leaves incomplete text.
  if (reply === undefined) return failed(garbled(request, answer), true, afterMs)
  if (!fits(schema, reply)) return failed(unexpected(request), false, afterMs)
  return { ok: true, reply }
}

/** With these a server refuses a request before it does anything. */
const refusals: ReadonlySet<string> = new Set(['too_many', 'draining', 'overloaded'])

function failed(error: SignalboxError, passing: boolean, afterMs: number): FailedTry {
  // A limit of the caller, and a request in progress, are the same on every server.
  const isServerFault = passing && error.code !== 'too_many' && error.code !== 'in_progress'
  return { ok: false, error, passing, isUndone: refusals.has(error.code), isServerFault, afterMs }
}

/** Whether the error may go away by itself. */
function isPassing(status: number, error: SignalboxError): boolean {
  if (isSignalboxError(error, 'in_progress')) return true
  // An operator must migrate the schema.
  if (error.code.startsWith('schema_')) return false
  return status === 429 || status === 502 || status === 503 || status === 504
}

/** The details of a problem document, for programs. */
function detailsOf(problem: Problem): { readonly details?: Readonly<Record<string, unknown>> } {
  const { details } = problem as { details?: unknown }
  const isRecord = typeof details === 'object' && details !== null && !Array.isArray(details)
  return isRecord ? { details: details as Readonly<Record<string, unknown>> } : {}
}

/** Whether a value has the outline of the schema. This is enough to recognise an answer of another program. */
function fits(schema: Schema, value: unknown): boolean {
  const { anyOf, type, required, properties } = schema as {
    anyOf?: readonly Schema[]
    type?: string
    required?: readonly string[]
    properties?: Readonly<Record<string, { readonly type?: string }>>
  }
  if (anyOf !== undefined) return anyOf.some((option) => fits(option, value))
  if (type !== 'object') return true
  if (typeof value !== 'object' || value === null) return false
  return (required ?? []).every((name) => {
    if (!Object.hasOwn(value, name)) return false
    const isList = properties?.[name]?.type === 'array'
    return !isList || Array.isArray((value as Record<string, unknown>)[name])
  })
}

function foreign(request: OutgoingRequest, { status, type }: Answer): SignalboxError {
  const what = `${describe(request)} was answered with ${status || 'a redirect'}${type && ` ${shown(type)}`}`
  const options = { details: { route: request.route.id, status } }
  if (status === 0 || (status >= 300 && status < 400)) {
    const message = `${what}. Redirects are not followed. Use the address to which this one leads.`
    return new SignalboxError('store_unavailable', message, options)
  }
  const message = `${what}. The answer is not from Signalbox but from a proxy or another program: check the address.`
  switch (status) {
    case 408:
    case 504:
      return new SignalboxError('timeout', message, options)
    case 413:
      return new SignalboxError('too_large', message, options)
    case 429:
      return new SignalboxError('too_many', message, options)
    default:
      return new SignalboxError('store_unavailable', message, options)
  }
}

function garbled(request: OutgoingRequest, { status }: Answer): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)} got ${status} with incomplete or changed JSON. Try again; check proxies in between.`,
    { details: { route: request.route.id, status } },
  )
}

function unexpected(request: OutgoingRequest): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)} got JSON of an unexpected form. Another program or another version of the server answered: check the address and the versions.`,
    { details: { route: request.route.id } },
  )
}

function shown(type: string): string {
  return /^[\w.+/-]{1,80}$/.test(type) ? type : 'of an unknown type'
}
