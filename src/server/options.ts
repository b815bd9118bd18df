import { isIPv4 } from 'node:net'
import { SignalboxError } from '../core/errors.ts'
import { callable, show, text, whole, withDefaults } from '../core/options.ts'

/** What a server can be told. */
export interface ServerOptions {
  /** The loopback address to listen on: 127.0.0.1, another 127.x.x.x, ::1 or localhost. @default '127.0.0.1' */
  readonly host?: string
  /** The port to listen on; 0 takes any free one. @default 7420 */
  readonly port?: number
  /** How long `close` waits for requests that have begun. @default 10_000 */
  readonly graceMs?: number
  /** How long a client may take to send its headers. @default 10_000 */
  readonly headersTimeoutMs?: number
  /** How long a client may take to send a whole request. @default 30_000 */
  readonly requestTimeoutMs?: number
  /** How often those two are looked at. @default 5_000 */
  readonly timeoutCheckMs?: number
  /** The most bytes of headers. @default 16_384 */
  readonly maxHeaderBytes?: number
  /** The most bytes of a body. @default 1_048_576 */
  readonly maxBodyBytes?: number
  /** Gets what went wrong inside a request; its client is told no more than `internal`. @default console.error */
  readonly onError?: (error: unknown) => void
}

/** What a server does unless told otherwise. */
export const serverDefaults: Required<ServerOptions> = {
  host: '127.0.0.1',
  port: 7420,
  graceMs: 10_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  timeoutCheckMs: 5_000,
  maxHeaderBytes: 16_384,
  maxBodyBytes: 1_048_576,
  onError: (error) => console.error('A request failed:', error),
}

/** Checks a server's options and makes them whole. */
export function resolveServerOptions(options?: ServerOptions): Required<ServerOptions> {
  const given = withDefaults('createServer', options, serverDefaults)
  const time = { min: 1, max: 3_600_000 }
  const resolved = {
    host: loopback(text('host', given.host)),
    port: whole('port', given.port, { max: 65_535 }),
    graceMs: whole('graceMs', given.graceMs, { max: 3_600_000 }),
    headersTimeoutMs: whole('headersTimeoutMs', given.headersTimeoutMs, time),
    requestTimeoutMs: whole('requestTimeoutMs', given.requestTimeoutMs, time),
    timeoutCheckMs: whole('timeoutCheckMs', given.timeoutCheckMs, time),
    maxHeaderBytes: whole('maxHeaderBytes', given.maxHeaderBytes, { min: 1_024, max: 1_048_576 }),
    maxBodyBytes: whole('maxBodyBytes', given.maxBodyBytes, { min: 1, max: 1_073_741_824 }),
    onError: callable('onError', given.onError),
  }
  if (resolved.headersTimeoutMs > resolved.requestTimeoutMs) {
    throw new SignalboxError(
      'invalid_argument',
      `headersTimeoutMs (${resolved.headersTimeoutMs}) must not be above requestTimeoutMs ` +
        `(${resolved.requestTimeoutMs}): headers are a part of the request.`,
    )
  }
  return Object.freeze(resolved)
}

/**
 * The address to bind. Without tokens everybody who reaches the port may do everything, so only this machine may
 * reach it. `localhost` is taken as 127.0.0.1 and not looked up: a hosts file cannot move it elsewhere.
 */
function loopback(host: string): string {
  const name = host.toLowerCase()
  if (name === 'localhost') return '127.0.0.1'
  if (name === '::1' || name === '[::1]') return '::1'
  if (isIPv4(name) && name.startsWith('127.')) return name
  throw new SignalboxError(
    'invalid_argument',
    `host must be a loopback address (127.0.0.1, ::1 or localhost), not ${show(host)}: ` +
      'this version has no tokens yet, so it serves this machine only.',
    { details: { option: 'host' } },
  )
}
