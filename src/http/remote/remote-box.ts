import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import {
  createTelemetry,
  type JobsOptions,
  loadTelemetryApi,
  resolveSealer,
  type TelemetryApi,
} from '../../jobs/index.ts'
import type { Locks } from '../../locks/index.ts'
import { type ContentionClient, createClient, type FetchFunction, listJobs, readyz } from '../client/index.ts'
import { createRemoteDispatch, type RemoteDispatch } from './dispatch.ts'
import { createRemoteJobs, type RemoteJobs } from './jobs.ts'
import { createRemoteLocks } from './locks.ts'
import { createRemoteMonitor, type RemoteMonitor } from './monitor.ts'
import { createRemoteOnce, type RemoteOnce } from './once.ts'
import { RemoteNotifier } from './remote-notifier.ts'

/** The address of a server. */
export type RemoteUrl = `http://${string}` | `https://${string}`

/** What `open` can be told of a server, or of several. */
export interface RemoteOpenOptions {
  /** Who asks: what `signalbox token` printed. @default none, which a server on the loopback may allow */
  readonly token?: string | undefined
  /** The namespace to act in; only a token of every namespace, or none, may choose. @default the token's */
  readonly namespace?: string | undefined
  /** How long one call may take, its retries included. @default 10_000 */
  readonly timeoutMs?: Duration | undefined
  /** The most repetitions of one call, where it may be repeated. @default as many as fit into `timeoutMs` */
  readonly retries?: number | undefined
  /** Sends the requests, such as one that shows a certificate of the client. @default the platform's own */
  readonly fetch?: FetchFunction | undefined
  /** How jobs are kept: with a sealer, the server never sees what they carry. @default as they are */
  readonly jobs?: JobsOptions | undefined
  /** Spans and metrics of jobs by OpenTelemetry, as in process. @default false */
  readonly telemetry?: boolean | TelemetryApi | undefined
}

/** All the modules, on a server elsewhere. */
export interface RemoteBox extends AsyncDisposable {
  readonly jobs: RemoteJobs
  readonly locks: Locks
  readonly once: RemoteOnce
  readonly monitor: RemoteMonitor
  readonly dispatch: RemoteDispatch
  /** Who waits on whom in the server that answers. */
  readonly contention: ContentionClient
  /** Always empty: the server's own settings are for its operators to see. */
  readonly warnings: readonly string[]
  /** Whether the server takes work; throws `store_unavailable` with what it lacks when it does not. */
  ping(): Promise<void>
  /** Stops the workers made here, and lets go of the server. */
  close(): Promise<void>
}

/** Opens a box on the server at `url`, or on several that share a store, once one has answered and taken the token. */
export async function openRemote(
  url: string | readonly string[],
  options: RemoteOpenOptions = {},
): Promise<RemoteBox> {
  const { jobs: jobsOptions, telemetry, ...connection } = options
  const sealer = resolveSealer('open.jobs', jobsOptions)
  const telemetryApi = await loadTelemetryApi('open.telemetry', telemetry)
  const client = createClient(url, connection)
  const notifier = new RemoteNotifier(client)
  const jobs = createRemoteJobs(client, notifier, {
    sealer,
    telemetry: telemetryApi && createTelemetry(telemetryApi),
  })
  const locks = createRemoteLocks(client)
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    try {
      // First, for workers still have to say how their jobs ended.
      await jobs[Symbol.asyncDispose]()
      await locks[Symbol.asyncDispose]()
    } finally {
      notifier.close()
      client.close()
    }
  }

  // A wrong address or token is found here and not by the first job.
  await client.call(listJobs, { query: { limit: 1 } })
  const box: RemoteBox = {
    jobs,
    locks,
    once: createRemoteOnce(client),
    monitor: createRemoteMonitor(client),
    dispatch: createRemoteDispatch(client),
    contention: client.contention,
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
    `The server at ${url} takes no work now (${failed.join('; ') || 'it does not say why'}).`,
    { details: { checks } },
  )
}
