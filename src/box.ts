import { type Contention, noContention, processContention } from './contention/index.ts'
import type { Duration } from './core/duration.ts'
import { SignalboxError } from './core/errors.ts'
import { callable, duration, flag, oneOf, text } from './core/options.ts'
import { requireUrl } from './core/require-url.ts'
import {
  createDispatch,
  type Dispatch,
  type DispatchOptions,
  resolveDispatchOptions,
} from './dispatch/index.ts'
import type { RemoteBox, RemoteOpenOptions, RemoteUrl } from './http/remote/index.ts'
import {
  createJobs,
  createTelemetry,
  createUpkeep,
  type Jobs,
  type JobsOptions,
  type JobsTelemetry,
  loadTelemetryApi,
  resolveSealer,
  SealedJobStore,
  type Sealer,
  type TelemetryApi,
} from './jobs/index.ts'
import {
  createLocks,
  createLocksForJobs,
  type Locks,
  type LocksOptions,
  resolveLocksOptions,
} from './locks/index.ts'
import { meterBackend } from './metered.ts'
import {
  createMonitor,
  type Monitor,
  type MonitorOptions,
  resolveMonitorOptions,
  SecretKeys,
} from './monitor/index.ts'
import { createOnce, type Once, type OnceOptions, OnceTally, resolveOnceOptions } from './once/index.ts'
import { checkRemoteOptions, checkStoreOptions } from './open-options.ts'
import { type Backend, openBackend } from './storage/open.ts'

/** What `open` can be told. */
export interface OpenOptions {
  /** Everything in the store carries it; boxes of different namespaces do not see each other. @default 'default' */
  readonly namespace?: string | undefined
  /** Bring the schema of a Postgres or MariaDB up to date first; SQLite and memory always do. @default false */
  readonly migrate?: boolean | undefined
  /** Forget jobs that ended longer ago than that. @default never */
  readonly retentionMs?: Duration | undefined
  /**
   * SQLite: write in a thread of its own, so that no fsync stops this one. For a server: `job.transaction` and a
   * `tx` of yours are refused then. Other engines ignore it. @default false
   */
  readonly thread?: boolean | undefined
  /** A redis:// or rediss:// URL: Redis holds the locks and guards then, and all else stays in the store. @default none */
  readonly redis?: string | undefined
  /**
   * Where guards are kept when there is a Redis; in SQL they can join your transaction. A key is never looked up in two
   * stores. @default 'redis'
   */
  readonly guards?: 'sql' | 'redis' | undefined
  /** How jobs are kept: with a sealer, what they carry is unreadable to the store. @default as they are */
  readonly jobs?: JobsOptions | undefined
  /** How long things last in lines, what excludes what, and whether asking waits by default. @default `locksDefaults` */
  readonly locks?: LocksOptions | undefined
  /** What guards answer when their store does not, and how long it may take. @default { whenDown: 'open', timeoutMs: 2_000 } */
  readonly once?: OnceOptions | undefined
  /** How the monitor behaves. @default its defaults */
  readonly monitor?: Omit<MonitorOptions, 'allowPrivate'> | undefined
  /** How tasks are handed out by a server that serves this box. @default `dispatchDefaults` */
  readonly dispatch?: DispatchOptions | undefined
  /** Addresses and ranges that channels may reach although they are not public: '127.0.0.0/8'. @default none */
  readonly allowPrivate?: readonly string[] | undefined
  /**
   * Seals the secrets of channels in the store: a key of 32 bytes in base64 or as 64 hexadecimal digits. Several, in a list
   * or separated by commas: the first seals, all open. @default none: they are kept in plain
   */
  readonly secretKey?: string | readonly string[] | undefined
  /**
   * What the store reads the time from, in epoch milliseconds: for tests, on `memory:` and `sqlite:FILE` (without
   * `thread`). Every other store has a clock of its own. @default the system's
   */
  readonly clock?: { now(): number } | undefined
  /** Measure who waits on whom, with the recorder of this process, or one of yours; false: not at all. @default true */
  readonly contention?: boolean | Contention | undefined
  /**
   * Spans and metrics of jobs by OpenTelemetry: true for the installed `@opentelemetry/api`, or that module itself. Without
   * it the package is not loaded. @default false
   */
  readonly telemetry?: boolean | TelemetryApi | undefined
}

/** How the modules of a box behave. */
export interface ModuleSettings {
  readonly locks?: LocksOptions | undefined
  readonly once?: OnceOptions | undefined
  readonly monitor?: MonitorOptions | undefined
  /** It shows no key when it is printed. */
  readonly secretKeys?: SecretKeys | undefined
  readonly dispatch?: DispatchOptions | undefined
}

/** All the modules, on one store. */
export interface Box extends AsyncDisposable {
  readonly jobs: Jobs
  readonly locks: Locks
  readonly once: Once
  readonly monitor: Monitor
  /** Tasks are submitted and looked at here; a server on the same store has the nodes and hands them out. */
  readonly dispatch: Dispatch
  /** Who waits, how long and on whom, in this process. */
  readonly contention: Contention
  /** How the modules were told to behave, for a server to do the same. */
  readonly settings: ModuleSettings
  /** The store itself, for a server to serve. */
  readonly backend: Backend
  /** What is weak about the store's settings, in words; empty when all is well. */
  readonly warnings: readonly string[]
  /** Whether the store answers; throws `store_unavailable` when it does not. */
  ping(): Promise<void>
  /** Stops the workers made here and closes the store. */
  close(): Promise<void>
}

/**
 * Opens a store and everything in it: `memory:`, `sqlite:FILE`, `postgres://…`, `mysql://…` (MariaDB).
 *
 *     await using box = await open('sqlite:signalbox.db')
 */
export function open<Url extends string | undefined>(
  url: Url & (Url extends RemoteUrl ? never : unknown),
  options?: OpenOptions,
): Promise<Box>
/**
 * Opens a box on a server: the same verbs, but for transactions. A list names servers that share a store: the box keeps
 * to one that works.
 *
 *     await using box = await open('http://127.0.0.1:7420', { token })
 *     await using box = await open(['https://one.example', 'https://two.example'], { token })
 */
export function open(url: RemoteUrl | readonly RemoteUrl[], options?: RemoteOpenOptions): Promise<RemoteBox>
/**
 * Opens a box on a server whose address is read from somewhere. Only servers take a token, so the address must be one.
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
  if (!isOfServers(url)) return openStore(url as string, options as OpenOptions)
  checkRemoteOptions(options)
  return (await import('./http/remote/index.ts')).openRemote(url, options as RemoteOpenOptions)
}

/** Whether `url` names servers and not a store. Throws for a list with anything else in it. */
function isOfServers(url: string | readonly string[]): boolean {
  if (!Array.isArray(url)) return isOfServer(url)
  if (url.length > 0 && url.every(isOfServer)) return true
  const rest = url.findIndex((one) => !isOfServer(one))
  throw new SignalboxError(
    'invalid_argument',
    url.length === 0
      ? 'open got an empty list. Name at least one server: ["http://127.0.0.1:7420"].'
      : `open takes a list of servers (http://… or https://…) that share a store; item ${rest + 1} is not a server. A database is one URL, not a list.`,
  )
}

function isOfServer(url: unknown): boolean {
  return typeof url === 'string' && /^https?:\/\//i.test(url)
}

async function openStore(url: string, options: OpenOptions): Promise<Box> {
  checkStoreOptions(options)
  if (typeof url !== 'string')
    throw new SignalboxError('invalid_argument', 'open takes a URL, such as "sqlite:signalbox.db".')
  const { namespace = 'default', migrate = false, retentionMs, thread = false, redis } = options
  // Checked before anything is opened.
  const sealer = resolveSealer('open.jobs', options.jobs)
  resolveLocksOptions(options.locks)
  resolveOnceOptions(options.once)
  resolveDispatchOptions(options.dispatch)
  const monitorOptions = { ...options.monitor, allowPrivate: options.allowPrivate }
  resolveMonitorOptions(monitorOptions)
  const { secretKey } = options
  const secretKeys = secretKey === undefined ? undefined : new SecretKeys('open.secretKey', secretKey)
  const keepMs = retentionMs === undefined ? undefined : duration('open.retentionMs', retentionMs)
  const contention = contentionOf(options.contention)
  const { clock } = options
  if (clock !== undefined) checkClock(clock, url, thread)
  const telemetryApi = await loadTelemetryApi('open.telemetry', options.telemetry)
  const backend = await openBackend(url, {
    namespace: text('open.namespace', namespace),
    meter: contention,
    migrate: flag('open.migrate', migrate) || /^(memory|sqlite):/.test(url),
    thread: flag('open.thread', thread),
    redis,
    now: clock && (() => clock.now()),
    guards: options.guards === undefined ? undefined : oneOf('open.guards', options.guards, ['sql', 'redis']),
  })
  const settings = {
    locks: options.locks,
    once: options.once,
    monitor: monitorOptions,
    secretKeys,
    dispatch: options.dispatch,
  }
  return createBox(meterBackend(backend, namespace, contention), contention, keepMs, settings, {
    namespace,
    sealer,
    telemetry: telemetryApi && createTelemetry(telemetryApi),
  })
}

function checkClock(clock: { now(): number }, url: string, thread: boolean): void {
  callable('open.clock.now', clock?.now)
  if (url.startsWith('memory:') || (url.startsWith('sqlite:') && !thread)) return
  throw new SignalboxError(
    'invalid_argument',
    'open.clock is for tests on memory: and sqlite: (without thread). Every other store reads the time from its own clock.',
    { details: { option: 'open.clock' } },
  )
}

function contentionOf(option: boolean | Contention | undefined): Contention {
  if (typeof option === 'object' && option !== null) {
    callable('open.contention.start', option.start)
    return option
  }
  return flag('open.contention', option ?? true) ? processContention() : noContention
}

function createBox(
  backend: Backend,
  contention: Contention,
  retentionMs: number | undefined,
  settings: ModuleSettings,
  {
    namespace,
    sealer,
    telemetry,
  }: { namespace: string; sealer: Sealer | undefined; telemetry: JobsTelemetry | undefined },
): Box {
  // The backend itself stays as it is: a server that serves this box has no part in what is sealed.
  const jobStore = sealer === undefined ? backend.jobs : new SealedJobStore(backend.jobs, sealer)
  const jobs = createJobs({
    ...{ store: jobStore, logs: backend.logs, schedules: backend.schedules },
    dependencies: { store: backend.dependencies, locks: createLocksForJobs(() => locks, backend.notifier) },
    ...{ notifier: backend.notifier, contention },
    ...(telemetry && { telemetry }),
  })
  const { locks: store, notifier, traits } = backend
  const locks = createLocks({ store, notifier, remoteWakeUps: traits.remoteWakeUps }, settings.locks)
  const tally = new OnceTally()
  const once = createOnce({ store: backend.guards, tally }, settings.once)
  const guards = backend.ownGuards ?? backend.guards
  const monitor = createMonitor(
    {
      ...{ store: backend.monitor, jobs: backend.jobs, guards, notifier, tally },
      ...{ namespace, secretKeys: settings.secretKeys },
    },
    settings.monitor,
  )
  const dispatch = createDispatch(
    {
      ...{ jobs: backend.jobs, logs: backend.logs, fleet: backend.fleet, guards, notifier },
      remoteWakeUps: traits.remoteWakeUps,
    },
    settings.dispatch,
  )
  const upkeep = retentionMs === undefined ? undefined : createUpkeep(backend, retentionMs)
  let closed: Promise<void> | undefined
  contention.start()

  async function close(): Promise<void> {
    try {
      await jobs[Symbol.asyncDispose]()
      await locks[Symbol.asyncDispose]()
      await once[Symbol.asyncDispose]()
      await dispatch[Symbol.asyncDispose]()
      await monitor[Symbol.asyncDispose]()
      await upkeep?.[Symbol.asyncDispose]()
    } finally {
      contention.stop()
      await backend.close()
    }
  }

  return {
    jobs,
    locks,
    once,
    monitor,
    dispatch,
    contention,
    settings,
    backend,
    get warnings() {
      return backend.warnings
    },
    ping: () => backend.ping(),
    close: () => {
      closed ??= close()
      return closed
    },
    [Symbol.asyncDispose]() {
      return this.close()
    },
  }
}
