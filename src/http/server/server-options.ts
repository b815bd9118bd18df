import { isIP, isIPv4 } from 'node:net'
import { type Contention, noContention } from '../../contention/index.ts'
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { callable, onlyKeys, refuse, show, text, whole } from '../../core/options.ts'
import { resolveRedactPaths } from '../../core/redact-paths.ts'
import type { DispatchOptions } from '../../dispatch/index.ts'
import type { AlertOptions } from '../../fleet/alerts/index.ts'
import type { SeriesOptions } from '../../fleet/index.ts'
import type { LocksOptions } from '../../locks/index.ts'
import type { MonitorOptions, SecretKeys } from '../../monitor/index.ts'
import type { OnceOptions } from '../../once/index.ts'
import type { Served } from './call.ts'
import type { Log } from './log/log.ts'
import { type AdmissionOptions, admissionDefaults, resolveAdmissionOptions } from './request/admission.ts'
import { type ClientAddresses, createClientAddresses } from './request/client-addresses.ts'
import { checkTls, type TlsOptions } from './tls.ts'

/** The options of the modules, as given to `open`. */
export interface ModuleSettings {
  readonly locks?: LocksOptions | undefined
  readonly once?: OnceOptions | undefined
  readonly monitor?: MonitorOptions | undefined
  /** The keys that encrypt the secrets of channels. */
  readonly secretKeys?: SecretKeys | undefined
  readonly dispatch?: DispatchOptions | undefined
  /** When problems of the fleet become notifications. */
  readonly alerts?: AlertOptions | undefined
  /** Counts and times of jobs over time; false: the server does not count. */
  readonly series?: boolean | SeriesOptions | undefined
}

/** A box to serve, or another object with a backend. */
export interface ServedBox {
  readonly backend: Served
  /** The options of the box's modules. The server uses them in every namespace. */
  readonly settings?: ModuleSettings | undefined
  /** Records which work waits for which. @default records nothing */
  readonly contention?: Contention | undefined
}

/** Options of both ways to serve, including the limits of admission. */
export interface ServiceOptions extends AdmissionOptions {
  /** The box to serve. The server does not close it: close it after the server. */
  readonly box: ServedBox
  /** Secrets of 32 characters or more, with every permission in every namespace. @default none */
  readonly bootstrap?: readonly string[] | undefined
  /** The most bytes of a body; a list of jobs may have eight times that, a report sixteen times. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined
  /** How long the server keeps ended jobs, in every namespace in use; a second or more. @default for ever */
  readonly retentionMs?: number | undefined
  /** How long the server keeps audit entries, in every namespace in use; a second or more. @default 90 days */
  readonly auditKeepMs?: number | undefined
  /**
   * Values of jobs that the API hides from readers and searches: paths such as `password` or `payload.card.*`. A worker
   * that claims a job gets all values. @default nothing
   */
  readonly redact?: readonly string[] | undefined
  /**
   * Addresses and ranges (CIDR) of trusted proxies, such as `10.0.0.0/8`. For requests from them, the server reads the
   * client's address from the header `X-Forwarded-For`. @default none, and the server ignores the header
   */
  readonly trustedProxies?: readonly string[] | undefined
  /** Logs requests and events. @default no log */
  readonly log?: Log | undefined
  /** Gets unexpected errors of requests, whose clients see only `internal`. @default the log, else console.error */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** Options of a server. */
export interface ServerOptions extends ServiceOptions {
  /** The address to listen on; any but a loopback one needs a token. @default '127.0.0.1' */
  readonly host?: string | undefined
  /** The port to listen on; 0 takes any free one. @default 7420 */
  readonly port?: number | undefined
  /** Further host names of this server, with or without a port, such as the name of a proxy. @default none */
  readonly allowedHosts?: readonly string[] | undefined
  /** How long `close` waits for requests in flight. @default 10_000 */
  readonly graceMs?: number | undefined
  /** How long a client may take to send its headers. @default 10_000 */
  readonly headersTimeoutMs?: number | undefined
  /** How long a client may take to send a whole request. @default 30_000 */
  readonly requestTimeoutMs?: number | undefined
  /** How often the server checks these two time-outs. @default 5_000 */
  readonly timeoutCheckMs?: number | undefined
  /** How long a connection may be idle between two requests. @default 72_000 */
  readonly keepAliveMs?: number | undefined
  /** The most bytes of headers. @default 16_384 */
  readonly maxHeaderBytes?: number | undefined
  /** Speaks HTTPS with this certificate. @default plain HTTP */
  readonly tls?: TlsOptions | undefined
}

/** Options of a mounted handler. */
export interface HandlerOptions extends ServiceOptions {
  /** The prefix of every path. @default '' */
  readonly basePath?: string | undefined
  /**
   * The app around the handler authenticates its callers: requests need no token and may do everything. Otherwise every
   * request needs a token, because a `Request` does not show whether it came from this machine. @default false
   */
  readonly trust?: boolean | undefined
  /** How long a client may take to send its body. @default 30_000 */
  readonly requestTimeoutMs?: number | undefined
  /** How long `close` waits for requests in flight. @default 10_000 */
  readonly graceMs?: number | undefined
}

type ServerSettings = Omit<ServerOptions, keyof ServiceOptions | 'tls'>

/** The checked options of both ways to serve, with defaults. */
export interface ResolvedServiceOptions {
  readonly served: Served
  readonly settings: ModuleSettings
  readonly contention: Contention
  readonly bootstrap: readonly string[]
  readonly caps: Required<AdmissionOptions>
  readonly maxBodyBytes: number
  readonly retentionMs: number | undefined
  readonly auditKeepMs: number
  readonly redact: readonly string[]
  readonly clients: ClientAddresses
  readonly log: Log | undefined
  readonly onError: ((error: unknown) => void) | undefined
}

/** The defaults of both ways to serve. */
export const serviceDefaults = {
  bootstrap: [],
  maxBodyBytes: 1_048_576,
  /** 90 days. */
  auditKeepMs: 7_776_000_000,
  redact: [],
  trustedProxies: [],
} as const

type Whole<Options> = { readonly [Key in keyof Options]-?: NonNullable<Options[Key]> }

/** The defaults of a server. */
export const serverDefaults: Whole<ServerSettings> = {
  host: '127.0.0.1',
  port: 7420,
  allowedHosts: [],
  graceMs: 10_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  timeoutCheckMs: 5_000,
  // More than the 60 s of common proxies: if the server closed first while the proxy sends, the request would be lost.
  keepAliveMs: 72_000,
  maxHeaderBytes: 16_384,
}

/** The checked options of a server, with defaults. */
export interface ResolvedServerOptions extends Whole<ServerSettings> {
  readonly service: ResolvedServiceOptions
  /** Whether only this machine can reach the server. */
  readonly isLoopback: boolean
  readonly tls: TlsOptions | undefined
}

const capKeys = Object.keys(admissionDefaults) as (keyof AdmissionOptions)[]
const ownKeys = [
  'box',
  'bootstrap',
  'maxBodyBytes',
  'retentionMs',
  'auditKeepMs',
  'redact',
  'trustedProxies',
  'log',
  'onError',
] as const
const serviceKeys = [...ownKeys, ...capKeys]

/** Checks the options of a server and fills in the defaults. */
export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  onlyKeys('createServer', options, [...serviceKeys, ...Object.keys(serverDefaults), 'tls'])
  const { tls } = options
  const settings = pick(options, Object.keys(serverDefaults) as (keyof ServerSettings)[])
  const given: Whole<ServerSettings> = { ...serverDefaults, ...settings }
  const time = { min: 1, max: 3_600_000 }
  const host = bindAddress(text('host', given.host))
  const resolved = {
    service: resolveService('createServer', options),
    host,
    isLoopback: isLoopback(host),
    tls,
    port: whole('port', given.port, { max: 65_535 }),
    allowedHosts: hostNames(given.allowedHosts),
    graceMs: whole('graceMs', given.graceMs, { max: 3_600_000 }),
    headersTimeoutMs: whole('headersTimeoutMs', given.headersTimeoutMs, time),
    requestTimeoutMs: whole('requestTimeoutMs', given.requestTimeoutMs, time),
    timeoutCheckMs: whole('timeoutCheckMs', given.timeoutCheckMs, time),
    keepAliveMs: whole('keepAliveMs', given.keepAliveMs, time),
    maxHeaderBytes: whole('maxHeaderBytes', given.maxHeaderBytes, { min: 1_024, max: 1_048_576 }),
  }
  if (resolved.headersTimeoutMs > resolved.requestTimeoutMs) {
    throw invalidArgument(
      `headersTimeoutMs (${resolved.headersTimeoutMs}) must not be above requestTimeoutMs ` +
        `(${resolved.requestTimeoutMs}): headers are a part of the request.`,
    )
  }
  if (tls !== undefined) checkTls(tls)
  if (isEverywhere(host) && resolved.allowedHosts.length === 0) throw needsNames(host)
  return Object.freeze(resolved)
}

/** The checked options of a mounted handler, with defaults. */
interface ResolvedHandlerOptions {
  readonly service: ResolvedServiceOptions
  readonly basePath: string
  readonly trust: boolean
  readonly requestTimeoutMs: number
  readonly graceMs: number
}

/** Checks the options of a mounted handler and fills in the defaults. */
export function resolveHandlerOptions(options: HandlerOptions): ResolvedHandlerOptions {
  const own = ['basePath', 'trust', 'requestTimeoutMs', 'graceMs']
  onlyKeys('createHandler', options, [...serviceKeys, ...own])
  const { basePath = '', trust = false } = options
  const { requestTimeoutMs = serverDefaults.requestTimeoutMs, graceMs = serverDefaults.graceMs } = options
  if (typeof trust !== 'boolean') refuse('trust', 'true or false', trust)
  if (typeof basePath !== 'string' || !/^(\/[\w.~-]+)*$/.test(basePath)) {
    refuse('basePath', 'a path such as "/signalbox", without a slash at its end', basePath)
  }
  return {
    service: resolveService('createHandler', options),
    basePath,
    trust,
    requestTimeoutMs: whole('requestTimeoutMs', requestTimeoutMs, { min: 1, max: 3_600_000 }),
    graceMs: whole('graceMs', graceMs, { max: 3_600_000 }),
  }
}

function resolveService(name: string, options: ServiceOptions): ResolvedServiceOptions {
  const given = { ...serviceDefaults, ...pick(options, ownKeys) }
  const { box, retentionMs, log, onError } = given
  if (typeof box?.backend?.within !== 'function') {
    throw invalidArgument(
      `${name} needs a box to serve: ${name}({ box: await open('sqlite:signalbox.db') }).`,
      'box',
    )
  }
  return Object.freeze({
    served: box.backend,
    settings: box.settings ?? {},
    contention: box.contention ?? noContention,
    bootstrap: checkSecrets(given.bootstrap),
    caps: resolveAdmissionOptions(pick(options, capKeys)),
    maxBodyBytes: whole('maxBodyBytes', given.maxBodyBytes, { min: 1, max: 134_217_728 }),
    retentionMs: retentionMs === undefined ? undefined : whole('retentionMs', retentionMs, { min: 1_000 }),
    auditKeepMs: whole('auditKeepMs', given.auditKeepMs, { min: 1_000 }),
    redact: resolveRedactPaths('redact', given.redact),
    clients: createClientAddresses(given.trustedProxies),
    log: log === undefined ? undefined : checkLog(log),
    onError: onError === undefined ? undefined : callable('onError', onError),
  })
}

/** Does not quote the value, which may be a secret. `Authenticator` checks each secret. */
function checkSecrets(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value
  throw invalidArgument('bootstrap must be a list of secrets.', 'bootstrap')
}

function checkLog(value: unknown): Log {
  const log = value as Partial<Log> | null
  if (typeof log?.request === 'function' && typeof log.warn === 'function') return log as Log
  return refuse('log', 'a log, as createLog makes', value)
}

/** The options with these names that have a value. */
function pick<Options extends object, Key extends keyof Options>(
  options: Options,
  keys: readonly Key[],
): { readonly [Name in Key]?: Exclude<Options[Name], undefined> } {
  const given = keys.filter((key) => options[key] !== undefined).map((key) => [key, options[key]])
  return Object.fromEntries(given)
}

/**
 * Resolves the address to bind. `localhost` means 127.0.0.1 without a look-up, so a hosts file cannot redirect it.
 * Other names are refused, because their address may change.
 */
function bindAddress(host: string): string {
  const name = host.toLowerCase()
  if (name === 'localhost') return '127.0.0.1'
  const bare = name.startsWith('[') && name.endsWith(']') ? name.slice(1, -1) : name
  if (isIP(bare) !== 0) return bare
  refuse('host', 'an IP address, or localhost', host)
}

function isLoopback(host: string): boolean {
  return host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

function isEverywhere(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

function hostNames(value: unknown): readonly string[] {
  if (!Array.isArray(value)) refuse('allowedHosts', 'a list of names', value)
  return value.map((name: unknown, index) => {
    if (typeof name === 'string' && /^(\[[0-9a-f:.]+\]|[\w.-]{1,253})(:\d{1,5})?$/i.test(name)) {
      return name.toLowerCase()
    }
    return refuse(
      `allowedHosts[${index}]`,
      'a name such as "signalbox.example.com", with or without a port',
      name,
    )
  })
}

function needsNames(host: string): SignalboxError {
  return invalidArgument(
    `host ${show(host)} listens on every address of this machine, so the names by which clients reach it must be given as allowedHosts: requests for any other name are refused.`,
    'allowedHosts',
  )
}
