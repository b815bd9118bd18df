import { SignalboxError } from '../../core/errors.ts'
import type { FleetMetrics } from '../../fleet/index.ts'
import {
  createTelemetry,
  type JobsOptions,
  loadTelemetryApi,
  resolveJobsOptions,
  type TelemetryApi,
} from '../../jobs/index.ts'
import type { Locks } from '../../locks/index.ts'
import { type ClientOptions, type ContentionClient, createClient, listJobs, readyz } from '../client/index.ts'
import { createRemoteJobs, type RemoteJobs } from './jobs.ts'
import {
  createRemoteDispatch,
  createRemoteLocks,
  createRemoteMonitor,
  createRemoteOnce,
  type RemoteDispatch,
  type RemoteMonitor,
  type RemoteOnce,
} from './remote-modules.ts'
import { RemoteNotifier } from './remote-notifier.ts'

/** The address of a server. */
export type RemoteUrl = `http://${string}` | `https://${string}`

/** The options of `open` for one or several servers: the options of the client, and of jobs. */
export interface RemoteOpenOptions extends Omit<ClientOptions, 'backoff'> {
  /**
   * With a sealer, the server sees only encrypted payloads and results. Also says how the server lists workers of this
   * box. @default no encryption; listed, without a release
   */
  readonly jobs?: JobsOptions | undefined
  /** Spans and metrics of jobs by OpenTelemetry, as in process. @default false */
  readonly telemetry?: boolean | TelemetryApi | undefined
}

/** All modules, on a remote server. */
export interface RemoteBox extends AsyncDisposable {
  readonly jobs: RemoteJobs
  readonly locks: Locks
  readonly once: RemoteOnce
  readonly monitor: RemoteMonitor
  readonly dispatch: RemoteDispatch
  /** Which calls wait for which others, in the server that answers. */
  readonly contention: ContentionClient
  /** Metrics of all processes on the server's store. */
  readonly metrics: FleetMetrics
  /** Always empty: `signalbox doctor` shows the warnings of a server. */
  readonly warnings: readonly string[]
  /** Throws `store_unavailable` with the failed checks when the server is not ready. */
  ping(): Promise<void>
  /** Stops the workers of this box and closes its connections. */
  close(): Promise<void>
}

/** Opens a box on the server at `url`, or on several that share a store. Resolves when a server accepts the token. */
export async function openRemote(
  url: string | readonly string[],
  options: RemoteOpenOptions = {},
): Promise<RemoteBox> {
  const { jobs: jobsOptions, telemetry, ...connection } = options
  const { sealer, release, membership } = resolveJobsOptions('open.jobs', jobsOptions)
  const telemetryApi = await loadTelemetryApi('open.telemetry', telemetry)
  const client = createClient(url, connection)
  const notifier = new RemoteNotifier(client)
  const jobs = createRemoteJobs(client, notifier, {
    sealer,
    telemetry: telemetryApi && createTelemetry(telemetryApi),
    ...(membership && { membership: { via: 'remote' } as const }),
    release,
  })
  const locks = createRemoteLocks(client)
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    try {
      // Closes jobs first, because workers still settle their jobs.
      await jobs[Symbol.asyncDispose]()
      await locks[Symbol.asyncDispose]()
    } finally {
      notifier.close()
      client.close()
    }
  }

  // Detects a wrong address or token before the first job.
  await client.call(listJobs, { query: { limit: 1 } })
  const box: RemoteBox = {
    jobs,
    locks,
    once: createRemoteOnce(client),
    monitor: createRemoteMonitor(client),
    dispatch: createRemoteDispatch(client),
    contention: client.contention,
    metrics: client.metrics,
    warnings: [],
    async ping() {
      const { status, checks } = await client.call(readyz)
      if (status === 'unready') throw notReady(client.url, checks)
    },
    close: () => {
      closed ??= close()
      return closed
    },
    [Symbol.asyncDispose]: () => box.close(),
  }
  return box
}

function notReady(
  url: string,
  checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[],
): SignalboxError {
  const failed = checks
    .filter(({ ok }) => !ok)
    .map(({ name, detail }) => (detail ? `${name}: ${detail}` : name))
  return new SignalboxError(
    'store_unavailable',
    `The server at ${url} is not ready (${failed.join('; ') || 'it gave no reason'}). Try again later, or see its log.`,
    { details: { checks } },
  )
}
