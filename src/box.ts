import { type Contention, noContention, processContention } from './contention/index.ts'
import { invalidArgument } from './core/errors.ts'
import { callable, duration, flag, oneOf, text } from './core/options.ts'
import { createDispatch, type Dispatch, resolveDispatchOptions } from './dispatch/index.ts'
import { resolveAlertOptions } from './fleet/alerts/index.ts'
import {
  createFleetMetrics,
  createSeriesCounting,
  type FleetMetrics,
  resolveSeriesOptions,
} from './fleet/index.ts'
import {
  createJobs,
  createSealedJobStore,
  createTelemetry,
  createUpkeep,
  type Jobs,
  type JobsTelemetry,
  loadTelemetryApi,
  type ResolvedJobsOptions,
  resolveJobsOptions,
} from './jobs/index.ts'
import { createLocks, createLocksForJobs, type Locks, resolveLocksOptions } from './locks/index.ts'
import { meterBackend } from './metered.ts'
import {
  createMonitor,
  type Monitor,
  type MonitorOptions,
  resolveMonitorOptions,
  SecretKeys,
} from './monitor/index.ts'
import { createOnce, type Once, OnceTally, resolveOnceOptions } from './once/index.ts'
import type { OpenOptions } from './open.ts'
import { type Backend, openBackend } from './storage/open.ts'

/** The options of the modules of a box. */
export interface ModuleSettings
  extends Pick<OpenOptions, 'locks' | 'once' | 'dispatch' | 'series' | 'alerts'> {
  readonly monitor?: MonitorOptions | undefined
  readonly secretKeys?: SecretKeys | undefined
}

/** All modules, on one store. */
export interface Box extends AsyncDisposable {
  readonly jobs: Jobs
  readonly locks: Locks
  readonly once: Once
  readonly monitor: Monitor
  /** Submits and shows tasks. A server on the same store has the nodes and dispatches the tasks. */
  readonly dispatch: Dispatch
  /** Measures waits for stores and locks in this process. */
  readonly contention: Contention
  /** Metrics of all processes on the store. */
  readonly metrics: FleetMetrics
  /** The options of the modules, for a server on this box. */
  readonly settings: ModuleSettings
  /** The store, for a server on this box. */
  readonly backend: Backend
  /** Weak settings of the store, as sentences. */
  readonly warnings: readonly string[]
  /** Throws `store_unavailable` if the store does not answer. */
  ping(): Promise<void>
  /** Stops the workers of this box and closes the store. */
  close(): Promise<void>
}

/** Opens the store at `url`, and all modules on it. */
export async function openStore(url: string, options: OpenOptions): Promise<Box> {
  if (typeof url !== 'string') throw invalidArgument('open takes a URL, such as "sqlite:signalbox.db".')
  const { namespace = 'default', migrate = false, retentionMs, thread = false, redis } = options
  // Checked before anything is opened.
  const jobsOptions = resolveJobsOptions('open.jobs', options.jobs)
  resolveLocksOptions(options.locks)
  resolveOnceOptions(options.once)
  resolveDispatchOptions(options.dispatch)
  const monitorOptions = { ...options.monitor, allowPrivate: options.allowPrivate }
  resolveMonitorOptions(monitorOptions)
  resolveSeriesOptions('open.series', options.series)
  resolveAlertOptions('open.alerts', options.alerts)
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
  const settings: ModuleSettings = {
    ...{ locks: options.locks, once: options.once, monitor: monitorOptions, secretKeys },
    ...{ dispatch: options.dispatch, series: options.series, alerts: options.alerts },
  }
  const metered = meterBackend(backend, namespace, contention)
  const telemetry = telemetryApi && createTelemetry(telemetryApi)
  return createBox(metered, { contention, retentionMs: keepMs, settings, namespace, jobsOptions, telemetry })
}

function checkClock(clock: { now(): number }, url: string, thread: boolean): void {
  callable('open.clock.now', clock?.now)
  if (url.startsWith('memory:') || (url.startsWith('sqlite:') && !thread)) return
  throw invalidArgument(
    'open.clock is for tests on memory: and sqlite: (without thread). Every other store uses its own clock.',
    'open.clock',
  )
}

function contentionOf(option: boolean | Contention | undefined): Contention {
  if (typeof option === 'object' && option !== null) {
    callable('open.contention.start', option.start)
    return option
  }
  return flag('open.contention', option ?? true) ? processContention() : noContention
}

interface BoxParts {
  readonly contention: Contention
  readonly retentionMs: number | undefined
  readonly settings: ModuleSettings
  readonly namespace: string
  readonly jobsOptions: ResolvedJobsOptions
  readonly telemetry: JobsTelemetry | undefined
}

function createBox(
  backend: Backend,
  { contention, retentionMs, settings, namespace, jobsOptions, telemetry }: BoxParts,
): Box {
  const { sealer, release, membership } = jobsOptions
  // Only this box decrypts: a server on it gets the backend itself, with encrypted jobs.
  const jobStore = sealer === undefined ? backend.jobs : createSealedJobStore(backend.jobs, sealer)
  const keep = resolveSeriesOptions('open.series', settings.series)
  const counting = keep && createSeriesCounting(backend.series, keep)
  const jobs = createJobs({
    ...(counting && { activity: counting.recorder }),
    ...{ store: jobStore, logs: backend.logs, attempts: backend.attempts, schedules: backend.schedules },
    dependencies: { store: backend.dependencies, locks: createLocksForJobs(() => locks, backend.notifier) },
    ...{ notifier: backend.notifier, contention },
    workers: backend.workers,
    ...(membership && { membership: { via: 'library' } as const }),
    release,
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
      ...{ jobs: backend.jobs, logs: backend.logs, cluster: backend.cluster, guards, notifier },
      remoteWakeUps: traits.remoteWakeUps,
      activity: counting?.recorder,
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
      await counting?.close()
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
    metrics: createFleetMetrics({
      ...{ series: backend.series, workers: backend.workers },
      queues: () => backend.jobs.stats(),
    }),
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
