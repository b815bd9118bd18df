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

type Conflicts = NonNullable<LocksOptions['conflicts']>

/**
 * Everything that can be set, once. From this table follow the flags of `serve`, the environment variables, the keys of
 * the configuration file, `config print` and the table in docs/server.md.
 */
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
  /** In milliseconds, as all spans here; undefined is for ever. */
  readonly retention: number | undefined
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
  /** What its flag takes, for people; a switch takes nothing. */
  readonly takes?: string
  /**
   * Only its variable sets it: other users of the machine see command lines, and files of settings are read, copied and
   * kept by many.
   */
  readonly secret?: true
  readonly default: Value
  /** What no value means, for people. */
  readonly none?: string
  readonly description: string
}

export const settings: { readonly [Name in keyof Config]: Setting<Config[Name]> } = {
  host: {
    kind: address,
    takes: 'address',
    default: '127.0.0.1',
    description: 'address to listen on; any but a loopback one needs a token',
  },
  port: {
    kind: wholeNumber({ max: 65_535 }),
    takes: 'number',
    default: 7420,
    description: 'port to listen on, 0 for any free one',
  },
  allowedHosts: {
    kind: hostNames,
    takes: 'names',
    default: [],
    none: 'its own address',
    description: 'further names by which clients reach it, separated by commas, as behind a proxy',
  },
  trustedProxies: {
    kind: addressRanges,
    takes: 'ranges',
    default: [],
    none: 'none',
    description: 'addresses of proxies in front whose X-Forwarded-For counts, such as 10.0.0.0/8',
  },
  database: {
    kind: database,
    takes: 'url',
    default: 'sqlite:signalbox.db',
    description: 'sqlite:FILE, postgres://…, mysql://… (MariaDB) or memory:',
  },
  redis: {
    kind: optional(redisAddress),
    takes: 'url',
    default: undefined,
    none: 'the database',
    description: 'redis://… or rediss://… that holds the locks and guards instead',
  },
  locksMultiNode: {
    kind: trueOrFalse,
    default: true,
    description: 'let a caller wait for a busy lock unless it says otherwise',
  },
  locksConflicts: {
    kind: operationPairs,
    takes: 'pairs',
    default: [],
    none: 'none',
    description: 'operations that exclude each other on a resource, such as pull+delete,update+delete',
  },
  guards: {
    kind: choice(['redis', 'sql']),
    takes: 'where',
    default: 'redis',
    description: 'where guards are kept when there is a Redis: redis or sql',
  },
  onceWhenDown: {
    kind: choice(['open', 'closed']),
    takes: 'policy',
    default: 'open',
    description: 'what guards answer when their store does not: open (go ahead) or closed (do not)',
  },
  onceTimeout: {
    kind: span({ min: 10, max: 600_000 }),
    takes: 'span',
    default: 2_000,
    description: 'how long the store of guards may take to answer',
  },
  monitorDistributedLockTtl: {
    kind: span({ min: 100, max: day }),
    takes: 'span',
    default: 30_000,
    description: 'how long a report has its task before another may take it up',
  },
  monitorDistributedNotificationInterval: {
    kind: span({ max: 365 * day }),
    takes: 'span',
    default: 300_000,
    description: 'how long the same state is not notified again',
  },
  monitorDistributedEventDedupTtl: {
    kind: span({ min: 1, max: 365 * day }),
    takes: 'span',
    default: 300_000,
    description: 'how long the same change counts as the same event',
  },
  monitorPerformanceBatchSize: {
    kind: wholeNumber({ min: 1, max: 1_000 }),
    takes: 'number',
    default: 100,
    description: 'venues of a report that are decided and written together',
  },
  monitorPerformanceMaxConcurrent: {
    kind: wholeNumber({ min: 1, max: 100 }),
    takes: 'number',
    default: 10,
    description: 'batches of a report that are under way at once',
  },
  monitorKeep: {
    kind: span({ min: 60_000, max: 3_650 * day }),
    takes: 'span',
    default: 7 * day,
    description: 'how long decisions and notifications that ended are kept',
  },
  dispatchHeartbeat: {
    kind: span({ min: 10, max: hour }),
    takes: 'span',
    default: 15_000,
    description: 'how often nodes are to send a sign of life',
  },
  dispatchSuspectAfter: {
    kind: optional(span({ min: 10, max: 10 * hour })),
    takes: 'span',
    default: undefined,
    none: 'twice the heartbeat',
    description: 'a node that is silent for so long gets no new work',
  },
  dispatchGoneAfter: {
    kind: optional(span({ min: 10, max: 10 * hour })),
    takes: 'span',
    default: undefined,
    none: 'three times the heartbeat',
    description: 'a node that is silent for so long is gone, and its tasks go to others',
  },
  dispatchClosedGrace: {
    kind: span({ max: hour }),
    takes: 'span',
    default: 2_000,
    description: 'how long a node whose connection closed may stay away before it is gone',
  },
  dispatchAccept: {
    kind: span({ max: hour }),
    takes: 'span',
    default: 10_000,
    description: 'how long a node may take to accept a task before another attempt; 0 for no bound',
  },
  dispatchLease: {
    kind: span({ min: 300, max: hour }),
    takes: 'span',
    default: 30_000,
    description: 'how long tasks stay with a server that gives no sign of life',
  },
  dispatchServerLease: {
    kind: span({ min: 300, max: hour }),
    takes: 'span',
    default: 10_000,
    description: 'a server that gives the others no sign of life for so long does not count',
  },
  allowPrivate: {
    kind: addressRanges,
    takes: 'ranges',
    default: [],
    none: 'none',
    description: 'addresses that notifications may go to although they are not public, such as 127.0.0.0/8',
  },
  secretKey: {
    kind: optional(secretKeyText),
    secret: true,
    default: undefined,
    description:
      'key of 32 bytes (base64 or hexadecimal) that seals the secrets of channels; several by commas: the first seals',
  },
  secretKeyFile: {
    kind: optional(line(4_096)),
    takes: 'path',
    default: undefined,
    description: 'file of such keys, one a line, which no other user can read',
  },
  migrate: {
    kind: trueOrFalse,
    default: true,
    description: 'bring the schema up to date at start',
  },
  thread: {
    kind: trueOrFalse,
    default: true,
    description: 'write to SQLite in a separate thread',
  },
  retention: {
    kind: optional(span({ min: 1_000 })),
    takes: 'span',
    default: undefined,
    none: 'for ever',
    description: 'how long jobs that ended are kept, such as 30d',
  },
  redact: {
    kind: redactPaths,
    takes: 'paths',
    default: [],
    none: 'nothing',
    description: 'what is not shown of payloads, results and errors, such as password,card.number',
  },
  token: {
    kind: optional(secret),
    secret: true,
    default: undefined,
    description: 'a secret of 32 characters or more that may do everything',
  },
  tokenFile: {
    kind: optional(line(4_096)),
    takes: 'path',
    default: undefined,
    description: 'file of secrets that may do everything, one a line, which no other user can read',
  },
  tlsCert: {
    kind: optional(line(4_096)),
    takes: 'path',
    default: undefined,
    none: 'plain HTTP',
    description:
      'file with the certificate of the server in PEM, and those that signed it; SIGHUP reads it again',
  },
  tlsKey: {
    kind: optional(line(4_096)),
    takes: 'path',
    default: undefined,
    description: 'file with the private key of that certificate in PEM, which no other user can read',
  },
  tlsClientCa: {
    kind: optional(line(4_096)),
    takes: 'path',
    default: undefined,
    none: 'clients need no certificate',
    description: 'file with the certificates in PEM that sign those of clients; others are refused',
  },
  grace: {
    kind: span({ max: 3_600_000 }),
    takes: 'span',
    default: 10_000,
    description: 'how long a stop waits for requests that have begun',
  },
  logLevel: {
    kind: choice(logLevels),
    takes: 'level',
    default: 'info',
    description: `what is logged: ${logLevels.join(', ')}`,
  },
  quietHealth: {
    kind: trueOrFalse,
    default: false,
    description: 'do not log requests to /livez, /readyz and /metrics that went well',
  },
  maxConnections: cap(20_000, 'the most connections in all'),
  maxConnectionsPerAddress: cap(12_000, 'the most connections from one address (IPv6: one /64)'),
  maxRequestsPerPrincipal: cap(2_000, 'the most requests in flight of one token'),
  maxStreamsPerPrincipal: cap(1_000, 'the most open streams of one token'),
  maxFailuresPerAddress: cap(300, 'the most wrong tokens from one address within a minute'),
  json: {
    kind: trueOrFalse,
    default: false,
    description: 'answer in JSON, one line each',
  },
}

/** One of the server's caps. */
function cap(fallback: number, description: string): Setting<number> {
  return { kind: wholeNumber({ min: 1, max: 10_000_000 }), takes: 'number', default: fallback, description }
}

export type SettingName = keyof Config
export const settingNames: readonly SettingName[] = Object.keys(settings) as SettingName[]

/** The variable that is a setting's twin: `allowedHosts` is `SIGNALBOX_ALLOWED_HOSTS`. */
export function variableOf(name: string): string {
  return `SIGNALBOX_${words(name).join('_').toUpperCase()}`
}

/** Its flag: `--allowed-hosts`; `--no-migrate` for a switch that is on; none for a secret. */
export function flagOf(name: SettingName): string | undefined {
  const { secret, default: fallback } = settings[name]
  if (secret) return undefined
  return `--${fallback === true ? 'no-' : ''}${words(name).join('-')}`
}

/** `maxConnections` as `max`, `connections`. */
function words(name: string): readonly string[] {
  return name.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
}
