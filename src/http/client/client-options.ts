import { type Backoff, resolveBackoff } from '../../core/backoff.ts'
import type { Duration } from '../../core/duration.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { callable, duration, onlyKeys, requireUrl, text, whole } from '../../core/options.ts'
import { Servers } from './retry.ts'

/** The options of a client. */
export interface ClientOptions {
  /** The bearer token. @default none, which a server on the loopback may allow */
  readonly token?: string | undefined
  /**
   * The namespace. Only callers with a token of every namespace, or without a token, may choose. @default the token's
   */
  readonly namespace?: string | undefined
  /** How long one call may take, including its retries and the reading of its reply. @default 10_000 */
  readonly timeoutMs?: Duration | undefined
  /** The most retries of a call that may be repeated. @default as many as fit into `timeoutMs` */
  readonly retries?: number | undefined
  /** The wait between tries. @default { baseMs: 50, factor: 2, jitter: 1, maxMs: 1_000 } */
  readonly backoff?: Partial<Backoff> | undefined
  /** Sends requests. @default the platform's fetch */
  readonly fetch?: FetchFunction | undefined
}

/** The part of `fetch` that the client uses. */
export type FetchFunction = (url: string, init: RequestInit) => Promise<Response>

export interface ResolvedClientOptions {
  /** The addresses have no slash at the end, because routes begin with one. */
  readonly servers: Servers
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly retries: number
  readonly backoff: Backoff
  readonly fetch: FetchFunction
}

export const retryDefaults: Backoff = { baseMs: 50, factor: 2, jitter: 1, maxMs: 1_000 }

/** The longest a timer can wait. */
const maxTimerMs = 2 ** 31 - 1
const keys = ['token', 'namespace', 'timeoutMs', 'retries', 'backoff', 'fetch']

export function resolveClientOptions(
  url: string | readonly string[] | undefined,
  options: ClientOptions,
): ResolvedClientOptions {
  requireUrl('createClient', url)
  onlyKeys('createClient', options, keys)
  const { token, namespace, timeoutMs = 10_000, retries, backoff, fetch } = options
  return Object.freeze({
    servers: new Servers(resolveUrls(url)),
    headers: Object.freeze({
      ...(token === undefined ? {} : { authorization: `Bearer ${tokenText(token)}` }),
      // Headers hold only ASCII, but names may hold other characters.
      ...(namespace === undefined
        ? {}
        : { 'signalbox-namespace': encodeURIComponent(text('namespace', namespace)) }),
    }),
    timeoutMs: callSpan('timeoutMs', timeoutMs),
    retries: retries === undefined ? Number.POSITIVE_INFINITY : whole('retries', retries, { max: 100 }),
    backoff: resolveBackoff('backoff', backoff, retryDefaults),
    // Looked up at each call and called as a global: a browser's `fetch` refuses another `this`.
    fetch: fetch === undefined ? (input, init) => globalThis.fetch(input, init) : callable('fetch', fetch),
  })
}

/** How long a call may take. */
export function callSpan(name: string, value: Duration): number {
  return duration(name, value, { min: 1, max: maxTimerMs })
}

/** The most servers of one client, and of one node. */
export const maxServers = 256

/** Checks the addresses and removes duplicates. */
function resolveUrls(url: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(url) ? url : [url]
  if (list.length > 0 && list.length <= maxServers) return [...new Set(list.map(baseOf))]
  throw invalidArgument(
    `A client takes the address of one server, or a list of 1 to ${maxServers}; this list has ${list.length}.`,
  )
}

function baseOf(url: unknown): string {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    // The message does not quote the value: it may contain a secret even if it is not a URL.
    throw new SignalboxError(
      'invalid_argument',
      'The address of a server must begin with http:// or https://, such as "http://127.0.0.1:7420".',
    )
  }
  if (parsed.username !== '' || parsed.password !== '' || parsed.search !== '' || parsed.hash !== '') {
    throw invalidArgument(
      `The address of ${parsed.host} must have no user, password, "?" or "#" in it. A token is an option: { token }.`,
    )
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, '')
}

/** Checked without `text`: its messages quote the value. */
function tokenText(token: unknown): string {
  if (typeof token === 'string' && /^[\x21-\x7e]{1,4096}$/.test(token)) return token
  throw invalidArgument(
    'token must be the text that `signalbox token` printed: visible ASCII characters without spaces.',
    'token',
  )
}
