import type { ErrorCode, SignalboxError } from '../core/errors.ts'
import { routes } from '../wire/index.ts'
import { type Admission, createAdmission } from './admission.ts'
import { type Answered, type Api, createApi } from './api.ts'
import { createAuthenticator, type TokenAuthenticator } from './auth.ts'
import { createHandlers } from './handlers/index.ts'
import { createHealth } from './health.ts'
import { createMetrics } from './metrics.ts'
import type { ResolvedServiceOptions } from './options.ts'
import { rootRoute } from './root.ts'
import { createSpaces } from './spaces.ts'
import { createStreams, type Streams } from './stream.ts'
import { createServerUpkeep } from './upkeep.ts'

/**
 * Everything that serving needs, put together once, for whichever adapter stands in front of it. It ends in the order
 * that loses nothing:
 *
 *     drain: not ready, no new requests ──▶ streams end, waiting claims are let go ──▶ (requests end) ──▶ loops, spaces
 */
export interface Service extends AsyncDisposable {
  readonly api: Api
  readonly streams: Streams
  readonly admission: Admission
  readonly authenticator: TokenAuthenticator
  readonly isDraining: boolean
  /** Says that it is not ready, ends streams with a word on when to come again, and lets waiting claims go. */
  drain(): Promise<void>
}

export interface ServiceParts extends ResolvedServiceOptions {
  /** Whether only this machine can reach it. */
  readonly loopback: boolean
  /** Whether the app in front has judged who comes. */
  readonly trust: boolean
  hosts(): ReadonlySet<string> | undefined
}

/** Codes that say that the store failed, not its caller. */
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

export function createService(parts: ServiceParts): Service {
  const { served, log, caps } = parts
  let isDraining = false
  const admission = createAdmission(caps)
  const { failures } = admission
  const { bootstrap, loopback, trust } = parts
  const authenticator = createAuthenticator(served.tokens, { bootstrap, loopback, trust, failures })
  const spaces = createSpaces(served)
  const loops = () => upkeep.loops
  const health = createHealth({
    store: served,
    loops,
    isDraining: () => isDraining,
    onChange: (readiness) => log?.warn('readiness', { ...readiness }),
  })
  const metrics = createMetrics({
    routes: [...routes, rootRoute],
    spaces: () => spaces,
    storeUp: () => health.storeUp(),
    loops,
    logDropped: () => log?.droppedCount ?? 0,
  })
  const streams = createStreams({ authenticator })
  const api = createApi({
    spaces,
    authenticator,
    admission,
    handlers: createHandlers({ tokens: authenticator.tokens, meter: metrics, system: { health, metrics } }),
    maxBodyBytes: parts.maxBodyBytes,
    hosts: parts.hosts,
    isDraining: () => isDraining,
    onBegan: () => metrics.requestBegan(),
    onProblem: (error, thrown, requestId) => {
      if (storeCodes.has(error.code)) metrics.storeFailed(error.code)
      if (error.status >= 500 && error.code !== 'draining') report(error, thrown, requestId)
    },
    onAnswered,
    onStreamEnded: (route, how, ms) => {
      metrics.streamClosed(how)
      metrics.request(route.id, 200, ms / 1_000)
    },
  })
  // Last, for it runs from now on: whatever throws above leaves nothing behind.
  const upkeep = createServerUpkeep({
    served,
    spaces,
    retentionMs: parts.retentionMs,
    onTrouble: (loop, trouble, event) => log?.warn(`loop.${trouble}`, { loop, ...event }),
  })

  function onAnswered(answered: Answered): void {
    const { requestId, incoming, route, principalId, status, ms, bytes } = answered
    if (bytes === undefined) metrics.streamOpened()
    else metrics.request(route?.id, status, ms / 1_000)
    const { method, path } = incoming
    log?.request({ requestId, method, path, route: route?.id, status, ms, principal: principalId, bytes })
  }

  /** A store that does not answer is for the log alone; what nobody foresaw is told to whoever wants to know. */
  function report(error: SignalboxError, thrown: unknown, requestId: string): void {
    log?.error('request.failed', { requestId, error: thrown })
    const { onError } = parts
    if (error.code !== 'internal' || (onError === undefined && log !== undefined)) return
    try {
      if (onError === undefined) console.error('A request failed:', thrown)
      else onError(thrown)
    } catch (hookError) {
      // Thrown on, it would take the answer with it.
      console.error('onError itself failed:', hookError)
    }
  }

  return {
    api,
    streams,
    admission,
    authenticator,
    get isDraining() {
      return isDraining
    },
    async drain() {
      isDraining = true
      spaces.letGo()
      await streams.close()
    },
    async [Symbol.asyncDispose]() {
      isDraining = true
      await upkeep[Symbol.asyncDispose]()
      await streams.close()
      await authenticator[Symbol.asyncDispose]()
      await spaces[Symbol.asyncDispose]()
    },
  }
}
