import { systemClock } from '../../core/clock.ts'
import type { ErrorCode, SignalboxError } from '../../core/errors.ts'
import { resolveAlertOptions } from '../../fleet/alerts/index.ts'
import { resolveSeriesOptions } from '../../fleet/index.ts'
import { createFiring } from '../../jobs/index.ts'
import type { SendingTrouble } from '../../monitor/index.ts'
import { routes } from '../contract/index.ts'
import { type Answered, type Api, createApi } from './api.ts'
import { createAssets } from './assets.ts'
import { createAlertWatch } from './background/alert-watch.ts'
import { createNamespaceWork } from './background/namespace-work.ts'
import {
  createBulkWorkers,
  createDispatchers,
  createResolvers,
  createSenders,
} from './background/namespace-workers.ts'
import { createServerUpkeep } from './background/server-upkeep.ts'
import { createHandlers } from './handlers/index.ts'
import { rootRoute } from './handlers/system.ts'
import { AuditTrail } from './log/audit-trail.ts'
import { createRefusals, type Refusals } from './log/log.ts'
import { slowWaitsLine } from './log/log-line.ts'
import { createClockWatch, createHealth } from './metrics/health.ts'
import { createMetrics, createRequestMeter } from './metrics/metrics.ts'
import { createOverviews } from './metrics/overview.ts'
import { queueCountsOf } from './metrics/queue-counts.ts'
import { Spaces } from './namespace-services.ts'
import { Admission } from './request/admission.ts'
import { TokenAuthenticator } from './request/authenticator.ts'
import { createLoopLag } from './request/loop-lag.ts'
import { createRedactor } from './request/redact-job.ts'
import type { ResolvedServiceOptions } from './server-options.ts'
import { createNodeGateway } from './sockets/node-gateway.ts'
import type { Gateway } from './sockets/upgrade.ts'
import { Streams } from './streams/stream.ts'

/**
 * All parts of a server except the adapter in front of it. It ends in an order that loses nothing:
 *
 *     drain: not ready, no new requests ──▶ streams and waiting claims end ──▶ (requests end) ──▶ loops, spaces
 */
export interface Service extends AsyncDisposable {
  readonly api: Api
  readonly streams: Streams
  readonly admission: Admission
  readonly authenticator: TokenAuthenticator
  /** Counts and logs connections and requests that the server refuses or cuts below HTTP. */
  readonly refusals: Refusals
  readonly isDraining: boolean
  /** The WebSocket endpoint of nodes. */
  readonly nodeGateway: Gateway
  /** Counts the queues of the default namespace before the first reader: counting millions of jobs takes a second. */
  countAhead(): void
  /** Stops dispatching tasks. Nodes get `graceMs` to end their tasks, and are then disconnected. */
  stopDispatch(graceMs: number): Promise<void>
  /**
   * Reports that the server is not ready, ends streams with a reconnect time, and ends waiting claims. Notifications in
   * flight get `graceMs` to end.
   */
  drain(graceMs: number): Promise<void>
}

interface ServiceParts extends ResolvedServiceOptions {
  /** Whether only this machine can reach the server. */
  readonly loopback: boolean
  /** The prefix of every path. @default none */
  readonly basePath?: string
  /** Whether the app around the server authenticates callers. */
  readonly trust: boolean
  hosts(): ReadonlySet<string> | undefined
}

/** How long a search for namespaces with tasks may continue when the server stops. */
const lookGraceMs = 1_000

/** Codes of failures of the store. */
const storeCodes: ReadonlySet<ErrorCode> = new Set([
  'store_unavailable',
  'store_busy',
  'commit_unknown',
  'transaction_conflict',
  'transaction_timeout',
  'schema_missing',
  'schema_newer',
  'schema_outdated',
])

/** With these codes the server refuses all work. It logs such a state once, not for every request. */
const refusesAllWork: ReadonlySet<ErrorCode> = new Set(['draining', 'overloaded'])

/** Events of dispatchers that need an operator's attention. */
const warningEvents: ReadonlySet<string> = new Set([
  'command.failed',
  'store.trouble',
  'task.lost',
  'fleet.braked',
  'loop.stalled',
  'slot.forced',
  'node.unanswered',
  'server.name_taken',
])

export function createService(parts: ServiceParts): Service {
  const { served, log, caps, contention, clients } = parts
  let isDraining = false
  const admission = new Admission(caps, systemClock, clients)
  const { failures } = admission
  const { bootstrap, loopback, trust } = parts
  const authenticator = new TokenAuthenticator(served.tokens, {
    bootstrap,
    loopback,
    trust,
    failures,
    clients,
  })
  const redactor = createRedactor(parts.redact)
  const spaces = new Spaces(served, {
    settings: parts.settings,
    redactor,
    onSeriesError: (error) => onLoopEvent('server.series', 'failed', { error }),
    meter: contention,
    countLocks: (namespace, store) => metrics.countLocks(namespace, store),
    onPlaced: (namespace, waitedMs) => metrics.taskPlaced(namespace, waitedMs),
    onDispatch(namespace, { name, ...event }) {
      const isWarning = warningEvents.has(name)
      log?.[isWarning ? 'warn' : 'info'](`dispatch.${name}`, { namespace, ...event })
    },
  })
  // While the server drains, its background loops stop on purpose, so readiness ignores them.
  const loops = () =>
    isDraining ? upkeep.loops : [...upkeep.loops, clockWatch.loop, ...background().map(({ loop }) => loop)]
  const background = () => [senders, alerting, scheduling, resolving, bulkWorkers, dispatchers]
  const health = createHealth({
    store: served,
    loops,
    isDraining: () => isDraining,
    onChange: (readiness) => log?.warn('readiness', { ...readiness }),
  })
  const metrics = createMetrics({
    routes: [...routes, rootRoute],
    spaces: () => spaces,
    sendings: () => senders.counts(),
    storeUp: () => health.storeUp(),
    loops,
    logDropped: () => log?.droppedCount ?? 0,
    contention,
  })
  const refusals = createRefusals({ count: metrics.refused, log })
  const requestMeter = createRequestMeter(contention, [...routes, rootRoute])
  const unwatch = contention.events.on('slow', (waits) => log?.warn('contention.slow', slowWaitsLine(waits)))
  const streams = new Streams({ authenticator })
  const api = createApi({
    spaces,
    authenticator,
    admission,
    handlers: createHandlers({
      tokens: authenticator.tokens,
      measureWait,
      system: { health, metrics },
      overviews: createOverviews({
        ...{ served, spaces, health },
        clockJump: () => clockWatch.jump(),
      }),
      bulkBegun: (namespace) => bulkWorkers.beginNow(namespace),
      redactor,
      contention,
    }),
    assets: createAssets(parts.basePath),
    trail: new AuditTrail(onAuditFailed),
    maxBodyBytes: parts.maxBodyBytes,
    hosts: parts.hosts,
    isDraining: () => isDraining,
    isOverloaded: () => loopLag.isOverloaded,
    onBegan: () => metrics.requestBegan(),
    onProblem: (error, thrown, requestId) => {
      if (storeCodes.has(error.code)) metrics.storeFailed(error.code)
      if (error.status >= 500 && !refusesAllWork.has(error.code)) report(error, thrown, requestId)
    },
    onAnswered,
    onStreamEnded: (route, how, ms) => {
      metrics.streamClosed(how)
      if (how === 'dropped') refusals.refused('cut_stream', { route: route.id })
      metrics.request(route.id, 200, ms / 1_000)
    },
  })
  // Created last, because it starts a timer at once: an error above must not leave it behind.
  const loopLag = createLoopLag({
    onChange: (isOverloaded, lateMs) => log?.warn(isOverloaded ? 'overloaded' : 'overload.over', { lateMs }),
  })
  const upkeep = createServerUpkeep({
    served,
    spaces,
    retentionMs: parts.retentionMs,
    auditKeepMs: parts.auditKeepMs,
    series: resolveSeriesOptions('settings.series', parts.settings.series),
    onLoopEvent,
  })
  const senders = createSenders({ served, spaces, onLoopEvent, onSendingTrouble })
  const scheduling = createNamespaceWork({
    name: 'server.schedules',
    find: (limit) => served.scheduledNamespaces(limit),
    begin: (namespace) => createFiring(served.within(namespace)),
    onLoopEvent,
  })
  const alertOptions = resolveAlertOptions('settings.alerts', parts.settings.alerts)
  const alerting = createNamespaceWork({
    name: 'server.alert-namespaces',
    find: (limit) => served.subscribedNamespaces(limit),
    begin: (namespace) => createAlertWatch({ served, spaces }, alertOptions, namespace),
    onLoopEvent,
  })
  const resolving = createResolvers({ served, spaces, onLoopEvent })
  const clockWatch = createClockWatch({
    now: () => served.time(),
    onJump: ({ byMs }) => log?.warn('clock_jump', { byMs }),
    onLoopEvent,
  })
  const bulkWorkers = createBulkWorkers({ served, redactor, onLoopEvent, onAuditFailed })
  const dispatchers = createDispatchers({ served, spaces, onLoopEvent })

  /** The time in which a claim waits for a job is not time blocked by other work. */
  async function measureWait<Result>(wait: () => Promise<Result>): Promise<Result> {
    metrics.claimWaits()
    requestMeter.pause()
    try {
      return await wait()
    } finally {
      metrics.claimWaited()
      requestMeter.resume()
    }
  }

  function onAuditFailed(action: string, error: unknown): void {
    metrics.auditFailed()
    log?.error('audit.failed', { action, error })
  }

  function onSendingTrouble(namespace: string, { kind, ...trouble }: SendingTrouble): void {
    log?.warn(kind === 'dead' ? 'notification.dead' : 'notification.sealed', { namespace, ...trouble })
  }

  function onLoopEvent(loop: string, what: string, event: object): void {
    log?.warn(`loop.${what}`, { loop, ...event })
  }

  function onAnswered(answered: Answered): void {
    const { requestId, incoming, route, principalId, status, ms, bytes } = answered
    requestMeter.setRoute(route)
    if (bytes === undefined) metrics.streamOpened()
    else metrics.request(route?.id, status, ms / 1_000)
    const { method, path } = incoming
    if (log === undefined) return
    const address = clients.of(incoming)
    const facts = { requestId, method, path, status, ms, address, bytes }
    log.request({ ...facts, route: route?.id, principal: principalId })
  }

  /** A store that does not answer goes to the log only; an unexpected error also goes to `onError`. */
  function report(error: SignalboxError, thrown: unknown, requestId: string): void {
    log?.error('request.failed', { requestId, error: thrown })
    const { onError } = parts
    if (error.code !== 'internal' || (onError === undefined && log !== undefined)) return
    try {
      if (onError === undefined) console.error('A request failed:', thrown)
      else onError(thrown)
    } catch (hookError) {
      // An error of the hook must not prevent the answer.
      console.error('The hook onError failed:', hookError)
    }
  }

  return {
    api: requestMeter.meter(api),
    streams,
    admission,
    authenticator,
    refusals,
    get isDraining() {
      return isDraining
    },
    nodeGateway: createNodeGateway({
      enter({ namespace }) {
        const space = spaces.enter(namespace)
        try {
          space.dispatch.start()
          return { connections: space.dispatch.connections, leave: () => spaces.leave(space) }
        } catch (error) {
          spaces.leave(space)
          throw error
        }
      },
    }),
    countAhead() {
      const space = spaces.enter('default')
      const counted = queueCountsOf(space.stores).recent()
      // A caller that asks after the failure gets the error.
      void counted.catch(() => undefined).finally(() => spaces.leave(space))
    },
    async stopDispatch(graceMs) {
      await dispatchers.stop(lookGraceMs)
      await spaces.stopDispatch(graceMs)
    },
    async drain(graceMs) {
      isDraining = true
      spaces.endWaits()
      // Runs beside the requests in flight. The dispose below waits for it.
      senders.stop(graceMs).catch(() => undefined)
      await streams.close()
    },
    async [Symbol.asyncDispose]() {
      isDraining = true
      loopLag.stop()
      refusals.close()
      unwatch()
      await Promise.all([clockWatch.loop.stop(), ...background().map((work) => work.stop())])
      await upkeep[Symbol.asyncDispose]()
      await streams.close()
      await authenticator[Symbol.asyncDispose]()
      await spaces[Symbol.asyncDispose]()
    },
  }
}
