/**
 * `open` and its options: all that `import 'signalbox'` loads besides the face of jobs. The modules, the engine of a
 * store and the client of a server are loaded by the first `open` that needs them.
 */
import type { Box } from './box.ts'
import type { Contention } from './contention/index.ts'
import type { Duration } from './core/duration.ts'
import { SignalboxError } from './core/errors.ts'
import { requireUrl } from './core/options.ts'
import type { DispatchOptions } from './dispatch/index.ts'
import type { AlertOptions } from './fleet/alerts/index.ts'
import type { SeriesOptions } from './fleet/index.ts'
import type { RemoteBox, RemoteOpenOptions, RemoteUrl } from './http/remote/index.ts'
import type { JobsOptions, TelemetryApi } from './jobs/index.ts'
import type { LocksOptions } from './locks/index.ts'
import type { MonitorOptions } from './monitor/index.ts'
import type { OnceOptions } from './once/index.ts'

/** The options of `open` for a store. */
export interface OpenOptions {
  /** The namespace: boxes of different namespaces do not see each other. @default 'default' */
  readonly namespace?: string | undefined
  /** Bring the schema of a Postgres or MariaDB up to date first; SQLite and memory always do. @default false */
  readonly migrate?: boolean | undefined
  /** Delete jobs that ended at least this long ago. @default never */
  readonly retentionMs?: Duration | undefined
  /**
   * SQLite: write in a separate thread, so that no fsync blocks this one. For a server: `job.transaction` and `tx` are
   * refused then. Other engines ignore it. @default false
   */
  readonly thread?: boolean | undefined
  /**
   * A redis:// or rediss:// URL: Redis then holds locks and guards; everything else stays in the store. @default none
   */
  readonly redis?: string | undefined
  /**
   * Where guards are stored when there is a Redis; in SQL they can join your transaction. @default 'redis'
   */
  readonly guards?: 'sql' | 'redis' | undefined
  /** How jobs are stored, and how workers are listed. @default in plain; listed, without a release */
  readonly jobs?: JobsOptions | undefined
  /**
   * Time limits of locks, operations that exclude each other, and whether to wait by default. @default `locksDefaults`
   */
  readonly locks?: LocksOptions | undefined
  /**
   * The answer of guards when their store is down, and its time limit. @default { whenDown: 'open', timeoutMs: 2_000 }
   */
  readonly once?: OnceOptions | undefined
  /** The options of the monitor. @default its defaults */
  readonly monitor?: Omit<MonitorOptions, 'allowPrivate'> | undefined
  /** How a server on this box dispatches tasks. @default `dispatchDefaults` */
  readonly dispatch?: DispatchOptions | undefined
  /** Private addresses and ranges that channels may reach: '127.0.0.0/8'. @default none */
  readonly allowPrivate?: readonly string[] | undefined
  /**
   * Encrypts the secrets of channels in the store: a key of 32 bytes in base64 or as 64 hexadecimal digits. With
   * several, in a list or separated by commas, the first encrypts and all decrypt. @default none: secrets are stored in
   * plain
   */
  readonly secretKey?: string | readonly string[] | undefined
  /**
   * The clock of the store, in epoch milliseconds: for tests, on `memory:` and `sqlite:FILE` (without `thread`). Every
   * other store uses its own clock. @default the system's
   */
  readonly clock?: { now(): number } | undefined
  /** Measure waits, with the recorder of this process or with yours; false: do not measure. @default true */
  readonly contention?: boolean | Contention | undefined
  /**
   * Count what this process does with jobs, for the charts and metrics of the fleet, and how long counts are kept;
   * false: do not count. @default { minutesMs: '48h', hoursMs: '90d' }
   */
  readonly series?: boolean | SeriesOptions | undefined
  /** When a server on this box alerts about its own problems, and how often it checks. @default see docs/alerts.md */
  readonly alerts?: AlertOptions | undefined
  /**
   * Spans and metrics of jobs by OpenTelemetry: true for the installed `@opentelemetry/api`, or that module itself.
   * @default false
   */
  readonly telemetry?: boolean | TelemetryApi | undefined
}

/**
 * Opens a store with all modules: `memory:`, `sqlite:FILE`, `postgres://…`, `mysql://…` (MariaDB).
 *
 *     await using box = await open('sqlite:signalbox.db')
 */
export function open<Url extends string | undefined>(
  url: Url & (Url extends RemoteUrl ? never : unknown),
  options?: OpenOptions,
): Promise<Box>
/**
 * Opens a box on a server: the same verbs, without transactions. A list names servers that share a store: the box uses
 * one that works.
 *
 *     await using box = await open('http://127.0.0.1:7420', { token })
 *     await using box = await open(['https://one.example', 'https://two.example'], { token })
 */
export function open(url: RemoteUrl | readonly RemoteUrl[], options?: RemoteOpenOptions): Promise<RemoteBox>
/**
 * Opens a box on a server with an address of type `string`. Only servers take a token, so the address must be a
 * server's.
 *
 *     await using box = await open(process.env.SIGNALBOX_URL, { token: process.env.SIGNALBOX_TOKEN })
 */
export function open<Url extends string | undefined>(
  url: (Url & (string extends Url ? unknown : never)) | readonly string[],
  options: RemoteOpenOptions & { readonly token: string | undefined },
): Promise<RemoteBox>
export async function open(
  url: string | readonly string[] | undefined,
  options: OpenOptions | RemoteOpenOptions = {},
): Promise<Box | RemoteBox> {
  requireUrl('open', url)
  const { checkRemoteOptions, checkStoreOptions } = await import('./open-options.ts')
  if (isOfServers(url)) {
    checkRemoteOptions(options)
    return (await import('./http/remote/index.ts')).openRemote(url, options as RemoteOpenOptions)
  }
  checkStoreOptions(options)
  return (await import('./box.ts')).openStore(url as string, options as OpenOptions)
}

/** Whether `url` names servers and not a store. Throws for a list with an item that is no server. */
function isOfServers(url: string | readonly string[]): boolean {
  if (!Array.isArray(url)) return isOfServer(url)
  if (url.length > 0 && url.every(isOfServer)) return true
  const rest = url.findIndex((one) => !isOfServer(one))
  throw new SignalboxError(
    'invalid_argument',
    url.length === 0
      ? 'open got an empty list. Name at least one server: ["http://127.0.0.1:7420"].'
      : `open takes a list of servers (http://… or https://…); item ${rest + 1} is not a server. A database is one URL, not a list.`,
  )
}

function isOfServer(url: unknown): boolean {
  return typeof url === 'string' && /^https?:\/\//i.test(url)
}
