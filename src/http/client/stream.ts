import { type Backoff, backoffMs } from '../../core/backoff.ts'
import { SignalboxError } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import type { Route, Shape } from '../contract/index.ts'
import { type CallInput, targetOf } from './call.ts'
import type { ResolvedClientOptions } from './client-options.ts'
import { pause } from './retry.ts'
import { Connection, type Place, type StreamCallbacks } from './stream-connection.ts'

/**
 * A stream of server-sent events that outlives its connections.
 *
 *     connect ──200──▶ read ──cut, silence, no more──▶ wait ──▶ connect, with Last-Event-ID
 *        └── 401, 403, 404: the end        └── jittered, longer each time; as the server asked when it did
 *
 * It holds one chunk and one event at a time, whatever the server sends. A proxy that forgot a connection sends nothing
 * and closes nothing, so silence counts as a cut: the server says something at least every few seconds.
 */
export type StreamOptions<S extends Shape> = Omit<CallInput<S>, 'body'> &
  StreamCallbacks & {
    /** Ends the stream; the promise then resolves. */
    readonly signal?: AbortSignal | undefined
    /** Told when a connection broke, with why and how long until the next. */
    readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
    /** So long without a byte counts as a cut. @default 45_000 */
    readonly silenceMs?: number | undefined
    /** Goes on after this event of an earlier stream. @default from the present */
    readonly lastEventId?: string | undefined
  }

/** The wait before the next connection; the first is short, so that a restart of the server is hardly noticed. */
const reconnect: Backoff = { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 30_000 }
/** A connection that lasted so long was a good one: the next wait is short again. */
const goodMs = 5_000
/** Whatever a server asks for: at once would be again and again, and no reader waits for days. */
const leastWishMs = 50
const maxWaitMs = 3_600_000

/** Reads the stream until the signal aborts; rejects when there is no use in going on. */
export async function runStream(
  client: ResolvedClientOptions,
  signal: AbortSignal,
  route: Route,
  options: StreamOptions<Shape>,
): Promise<void> {
  if (route.replyType !== 'events')
    throw new SignalboxError('invalid_argument', `${route.path} is no stream: ask it with client.call.`)
  const silenceMs = whole('silenceMs', options.silenceMs ?? 45_000, { min: 1, max: 2 ** 31 - 1 })
  const { params, query } = options as Shape
  const target = targetOf(route, params, query)
  const place: Place = { lastEventId: options.lastEventId ?? '', retryMs: undefined }
  const { servers } = client
  let failedInRound = 0
  let failedRounds = 0
  for (;;) {
    const server = servers.current
    const connection = new Connection(client, { route, url: server + target }, place, silenceMs, options)
    const broken = await connection.run(signal)
    if (broken === undefined) return
    if (broken.isFinal) throw broken.error
    if (connection.lastedMs >= goodMs) failedInRound = failedRounds = 0
    servers.leave(server)
    const isRoundOver = ++failedInRound >= servers.size
    if (isRoundOver) failedInRound = 0
    const retryInMs = isRoundOver
      ? waitMs(place.retryMs, ++failedRounds, broken.afterMs)
      : Math.random() * reconnect.baseMs
    options.onBreak?.(broken.error, retryInMs)
    try {
      await pause(retryInMs, signal)
    } catch {
      return
    }
  }
}

/** The server's wish is where the waiting begins; many readers of one server must not come back at once. */
function waitMs(retryMs: number | undefined, failureCount: number, afterMs: number): number {
  const baseMs = Math.max(leastWishMs, retryMs ?? reconnect.baseMs)
  const plan = { ...reconnect, baseMs, maxMs: Math.max(reconnect.maxMs, baseMs * (1 + reconnect.jitter)) }
  return Math.min(maxWaitMs, afterMs + backoffMs(plan, failureCount))
}
