import type { Range } from '../../core/options.ts'
import type { LocksOptions } from '../../locks/index.ts'
import {
  address,
  addressRanges,
  choice,
  database,
  hostNames,
  type Kind,
  line,
  operationPairs,
  optional,
  redactPaths,
  redisAddress,
  secret,
  secretKeyText,
  span,
  trueOrFalse,
  wholeNumber,
} from './value-kinds.ts'

const day = 86_400_000
const hour = 3_600_000
const cap: Range = { min: 1, max: 10_000_000 }
const path = line(4_096)

type Conflicts = NonNullable<LocksOptions['conflicts']>

/** The values of all settings. The table `settings` below describes them. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly allowedHosts: readonly string[]
  readonly trustedProxies: readonly string[]
  readonly database: string
  readonly redis: string | undefined
  readonly locksMultiNode: boolean
  readonly locksConflicts: Conflicts
  readonly guards: 'redis' | 'sql'
  readonly onceWhenDown: 'open' | 'closed'
  readonly onceTimeout: number
  readonly monitorDistributedLockTtl: number
  readonly monitorDistributedNotificationInterval: number
  readonly monitorDistributedEventDedupTtl: number
  readonly monitorPerformanceBatchSize: number
  readonly monitorPerformanceMaxConcurrent: number
  readonly monitorKeep: number
  readonly dispatchHeartbeat: number
  readonly dispatchSuspectAfter: number | undefined
  readonly dispatchGoneAfter: number | undefined
  readonly dispatchClosedGrace: number
  readonly dispatchAccept: number
  readonly dispatchLease: number
  readonly dispatchServerLease: number
  readonly allowPrivate: readonly string[]
  readonly secretKey: string | undefined
  readonly secretKeyFile: string | undefined
  readonly migrate: boolean
  readonly thread: boolean
  /** In milliseconds, like all spans here; undefined: for ever. */
  readonly retention: number | undefined
  readonly alertsBehind: number
  readonly alertsNoWorker: number
  readonly alertsLock: number
  readonly alertsEvery: number
  readonly series: boolean
  readonly seriesMinutes: number
  readonly seriesHours: number
  readonly redact: readonly string[]
  readonly token: string | undefined
  readonly tokenFile: string | undefined
  readonly tlsCert: string | undefined
  readonly tlsKey: string | undefined
  readonly tlsClientCa: string | undefined
  readonly grace: number
  readonly logLevel: LogLevel
  readonly quietHealth: boolean
  readonly maxConnections: number
  readonly maxConnectionsPerAddress: number
  readonly maxRequestsPerPrincipal: number
  readonly maxStreamsPerPrincipal: number
  readonly maxFailuresPerAddress: number
  readonly json: boolean
}

export type LogLevel = 'error' | 'warn' | 'info' | 'debug' | 'silent'
export const logLevels: readonly LogLevel[] = ['silent', 'error', 'warn', 'info', 'debug']

export interface Setting<Value> {
  readonly kind: Kind<Value>
  /** The kind of value in the help; a switch has none. */
  readonly takes?: string
  /** Only its variable sets it: other users see command lines, and many users read and copy files of settings. */
  readonly secret?: true
  readonly default: Value
  /** The meaning of no value, as text for the operator. */
  readonly none?: string
  readonly description: string
}

/**
 * All settings. The flags of `serve`, the environment variables, the keys of the configuration file and `config print`
 * follow from this table. A test compares it with the table in docs/configuration.md.
 */
export const settings: { readonly [Name in keyof Config]: Setting<Config[Name]> } = {
  host: valued(
    'address',
    address,
    '127.0.0.1',
    'address to listen on; other addresses than the loopback need a token',
  ),
  port: count({ max: 65_535 }, 7420, 'port to listen on; 0: any free port'),
  allowedHosts: listed(
    'names',
    hostNames,
    'its own address',
    'further names of the server, separated by commas, such as behind a proxy',
  ),
  trustedProxies: listed(
    'ranges',
    addressRanges,
    'none',
    'addresses of trusted proxies, whose X-Forwarded-For is used, such as 10.0.0.0/8',
  ),
  database: valued(
    'url',
    database,
    'sqlite:signalbox.db',
    'sqlite:FILE, postgres://…, mysql://… (MariaDB) or memory:',
  ),
  redis: unset('url', redisAddress, 'redis://… or rediss://… for locks and guards', 'the database'),
  locksMultiNode: toggle(true, 'let callers wait for a busy lock, unless a call says otherwise'),
  locksConflicts: listed(
    'pairs',
    operationPairs,
    'none',
    'operations that exclude each other on a resource, such as pull+delete,update+delete',
  ),
  guards: valued(
    'where',
    choice(['redis', 'sql']),
    'redis',
    'the store of guards if there is a Redis: redis or sql',
  ),
  onceWhenDown: valued(
    'policy',
    choice(['open', 'closed']),
    'open',
    'the answer of guards if their store does not answer: open (run) or closed (do not run)',
  ),
  onceTimeout: time({ min: 10, max: 600_000 }, 2_000, 'time limit of the store of guards'),
  monitorDistributedLockTtl: time(
    { min: 100, max: day },
    30_000,
    'lease of a report on its task; afterwards another report may claim the task',
  ),
  monitorDistributedNotificationInterval: time(
    { max: 365 * day },
    300_000,
    'how long the same state is not notified again',
  ),
  monitorDistributedEventDedupTtl: time(
    { min: 1, max: 365 * day },
    300_000,
    'how long the same change counts as the same event',
  ),
  monitorPerformanceBatchSize: count(
    { min: 1, max: 1_000 },
    100,
    'venues of a report that are decided and written together',
  ),
  monitorPerformanceMaxConcurrent: count({ min: 1, max: 100 }, 10, 'batches of a report in progress at once'),
  monitorKeep: time(
    { min: 60_000, max: 3_650 * day },
    7 * day,
    'how long decisions and ended notifications are kept',
  ),
  dispatchHeartbeat: time({ min: 10, max: hour }, 15_000, 'the interval of the heartbeats of nodes'),
  dispatchSuspectAfter: unset(
    'span',
    span({ min: 10, max: 10 * hour }),
    'a node that is silent this long gets no new work',
    'twice the heartbeat',
  ),
  dispatchGoneAfter: unset(
    'span',
    span({ min: 10, max: 10 * hour }),
    'a node that is silent this long is gone, and its tasks move to other nodes',
    'three times the heartbeat',
  ),
  dispatchClosedGrace: time(
    { max: hour },
    2_000,
    'how long a disconnected node may stay away before its tasks move to other nodes',
  ),
  dispatchAccept: time(
    { max: hour },
    10_000,
    'how long a node may take to accept a task before another attempt; 0: no limit',
  ),
  dispatchLease: time({ min: 300, max: hour }, 30_000, 'how long tasks stay with a silent server'),
  dispatchServerLease: time(
    { min: 300, max: hour },
    10_000,
    'a server that is silent this long does not count for the other servers',
  ),
  allowPrivate: listed(
    'ranges',
    addressRanges,
    'none',
    'private addresses that notifications may go to, such as 127.0.0.0/8',
  ),
  secretKey: secretly(
    secretKeyText,
    'key of 32 bytes (base64 or hexadecimal) that seals the secrets of channels; of several, separated by commas, the first seals',
  ),
  secretKeyFile: unset('path', path, 'file of such keys, one a line, that no other user can read'),
  migrate: toggle(true, 'migrate the schema at start'),
  thread: toggle(true, 'write to SQLite in a separate thread'),
  retention: unset('span', span({ min: 1_000 }), 'how long ended jobs are kept, such as 30d', 'for ever'),
  alertsBehind: time(
    { min: 1_000, max: 30 * day },
    300_000,
    'alert when the oldest ready job of a queue waits longer',
  ),
  alertsNoWorker: time(
    { min: 1_000, max: 30 * day },
    60_000,
    'alert when jobs are ready longer and no live worker claims from their queue',
  ),
  alertsLock: time({ min: 1_000, max: 30 * day }, 600_000, 'alert when a request waits longer for a lock'),
  alertsEvery: time(
    { min: 1_000, max: hour },
    15_000,
    'how often the server looks for alerts, while a channel wants them',
  ),
  series: toggle(true, 'count the events of jobs, for charts and metrics of the whole fleet'),
  seriesMinutes: time({ min: hour, max: 3_650 * day }, 2 * day, 'how long the counts by minute are kept'),
  seriesHours: time({ min: hour, max: 3_650 * day }, 90 * day, 'how long the counts by hour are kept'),
  redact: listed(
    'paths',
    redactPaths,
    'nothing',
    'fields to hide in payloads, results and errors, such as password,card.number',
  ),
  token: secretly(secret, 'a secret of at least 32 characters with all rights'),
  tokenFile: unset('path', path, 'file of secrets with all rights, one a line, that no other user can read'),
  tlsCert: unset(
    'path',
    path,
    'file with the certificate of the server and its chain in PEM; SIGHUP reads it again',
    'plain HTTP',
  ),
  tlsKey: unset(
    'path',
    path,
    'file with the private key of that certificate in PEM, that no other user can read',
  ),
  tlsClientCa: unset(
    'path',
    path,
    'file with the certificates in PEM that sign certificates of clients; other clients are refused',
    'clients need no certificate',
  ),
  grace: time({ max: 3_600_000 }, 10_000, 'how long a stop waits for running requests'),
  logLevel: valued(
    'level',
    choice(logLevels),
    'info',
    `the lowest level of the log: ${logLevels.join(', ')}`,
  ),
  quietHealth: toggle(false, 'do not log successful requests to /livez, /readyz and /metrics'),
  maxConnections: count(cap, 20_000, 'the most connections in all'),
  maxConnectionsPerAddress: count(cap, 12_000, 'the most connections from one address (IPv6: one /64)'),
  maxRequestsPerPrincipal: count(cap, 2_000, 'the most requests in flight of one token'),
  maxStreamsPerPrincipal: count(cap, 1_000, 'the most open streams of one token'),
  maxFailuresPerAddress: count(cap, 300, 'the most wrong tokens from one address in a minute'),
  json: toggle(false, 'print lines of JSON'),
}

function valued<Value>(
  takes: string,
  kind: Kind<Value>,
  fallback: Value,
  description: string,
): Setting<Value> {
  return { kind, takes, default: fallback, description }
}

/** A list, empty by default. `none` describes an empty list. */
function listed<Value>(
  takes: string,
  kind: Kind<readonly Value[]>,
  none: string,
  description: string,
): Setting<readonly Value[]> {
  return { kind, takes, default: [], none, description }
}

/** A setting without a default. `none` describes no value. */
function unset<Value>(
  takes: string,
  kind: Kind<Value>,
  description: string,
  none?: string,
): Setting<Value | undefined> {
  return { ...valued(takes, optional(kind), undefined, description), ...(none === undefined ? {} : { none }) }
}

function count(range: Range, fallback: number, description: string): Setting<number> {
  return valued('number', wholeNumber(range), fallback, description)
}

function time(range: Range, fallback: number, description: string): Setting<number> {
  return valued('span', span(range), fallback, description)
}

function toggle(fallback: boolean, description: string): Setting<boolean> {
  return { kind: trueOrFalse, default: fallback, description }
}

function secretly<Value>(kind: Kind<Value>, description: string): Setting<Value | undefined> {
  return { kind: optional(kind), secret: true, default: undefined, description }
}

export type SettingName = keyof Config
export const settingNames: readonly SettingName[] = Object.keys(settings) as SettingName[]

/** The variable of a setting: `allowedHosts` is `SIGNALBOX_ALLOWED_HOSTS`. */
export function variableOf(name: string): string {
  return `SIGNALBOX_${words(name).join('_').toUpperCase()}`
}

/** The flag of a setting: `--allowed-hosts`; `--no-migrate` for a switch that is on by default; none for a secret. */
export function flagOf(name: SettingName): string | undefined {
  const { secret, default: fallback } = settings[name]
  if (secret) return undefined
  return `--${fallback === true ? 'no-' : ''}${words(name).join('-')}`
}

/** Splits `maxConnections` into `max` and `connections`. */
function words(name: string): readonly string[] {
  return name.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
}
