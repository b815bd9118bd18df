import { type Backoff, backoffMs } from '../../core/backoff.ts'
import type { SignalboxError } from '../../core/errors.ts'
import { createNotifier } from '../../core/notifier.ts'
import {
  createToken,
  forgetOnce,
  logJob,
  mutates,
  pauseSchedule,
  type Route,
  releaseLock,
  removeSchedule,
  renewJob,
  renewOnce,
  reportChanges,
  resumeSchedule,
  revokeToken,
  setSchedule,
  submitTask,
  wakeQueue,
} from '../contract/index.ts'

/**
 * When the client repeats a request. If the client could not reach the server, or the server refused the request,
 * nothing was done and the client may always repeat it. If the answer was lost, the server may have processed the
 * request. Then the client repeats it only if that does no harm: the request changes nothing, doing it twice equals
 * doing it once, or it has an Idempotency-Key, so that the server repeats the first answer.
 *
 *     try ──▶ next server ──▶ … each server once ──▶ wait, longer after each round, never past the deadline ──▶ try
 */
type Repetition = 'safe' | 'keyed' | 'never'

/** Doing these twice equals doing them once; a key would only cost a row for every renewal. */
const harmless: readonly string[] = [
  renewJob.id,
  wakeQueue.id,
  revokeToken.id,
  renewOnce.id,
  forgetOnce.id,
  setSchedule.id,
  removeSchedule.id,
  pauseSchedule.id,
  resumeSchedule.id,
  // The monitor recognises a repeated report as a duplicate.
  reportChanges.id,
  // The log may get a line twice, which costs less than a key for every line.
  logJob.id,
]

export function repetitionOf(route: Route): Repetition {
  if (!mutates(route) || harmless.includes(route.id)) return 'safe'
  // Node and requestId identify the request. Only a repeated release looks the same as one that is too late.
  if (route.module === 'locks') return route.id === releaseLock.id ? 'never' : 'safe'
  // Doing a drain, a cordon, a pool or a cancel twice equals doing it once.
  if (route.module === 'dispatch') return route.id === submitTask.id ? 'keyed' : 'safe'
  // The answer contains a secret, which the server does not store.
  return route.id === createToken.id ? 'never' : 'keyed'
}

/** The result of one try. */
export type Try<Reply> = { readonly ok: true; readonly reply: Reply } | FailedTry

export interface FailedTry {
  readonly ok: false
  readonly error: SignalboxError
  /** The fault may go away by itself. */
  readonly passing: boolean
  /** It is certain that the server did nothing. */
  readonly isUndone: boolean
  /** The fault is this server's: another server may answer. */
  readonly isServerFault: boolean
  /** How long the server asked to stay away. */
  readonly afterMs: number
}

interface RetryPlan {
  readonly servers: Servers
  /** Whether the request may be repeated when the outcome of the last try is unknown. */
  readonly isRepeatable: boolean
  readonly retries: number
  readonly backoff: Backoff
  /** By `performance.now()`. */
  readonly deadline: number
  readonly signal: AbortSignal
}

/** The progress of a call, for messages. */
export interface Progress {
  readonly begunAt: number
  /** The server of the last try. */
  server: string
  tries: number
  last: SignalboxError | undefined
}

/** Tries until a try succeeds or fails for good, or no time is left for another. Then throws the last error. */
export async function retrying<Reply>(
  { servers, isRepeatable, retries, backoff, deadline, signal }: RetryPlan,
  progress: Progress,
  attempt: (server: string) => Promise<Try<Reply>>,
): Promise<Reply> {
  let triedInRound = 0
  let rounds = 0
  for (;;) {
    const server = servers.current
    progress.server = server
    progress.tries++
    const outcome = await attempt(server)
    if (outcome.ok) return outcome.reply
    const { error, passing, isUndone, isServerFault, afterMs } = outcome
    progress.last = error
    if (isServerFault) servers.leave(server)
    if (!passing) throw error
    if (!(isRepeatable || isUndone) || progress.tries > retries) throw givenUp(error, servers, progress)
    if (isServerFault && ++triedInRound < servers.size) continue
    triedInRound = 0
    const leftMs = deadline - performance.now()
    if (leftMs <= Math.max(afterMs, minLeftMs)) throw givenUp(error, servers, progress)
    // Waits at most half of the remaining time. So the last tries are close together and reach a server that returns
    // late.
    await pause(Math.max(afterMs, Math.min(backoffMs(backoff, ++rounds), leftMs / 2)), signal)
  }
}

/** With less time left than this, the client does not try again. */
export const minLeftMs = 20

/** Adds to the last error how often, how long and where the client tried. */
function givenUp(error: SignalboxError, servers: Servers, progress: Progress): SignalboxError {
  if (progress.tries > 1) error.message += ` ${effort(servers, progress)}`
  return error
}

export function effort(servers: Servers, { tries, begunAt }: Progress): string {
  const seconds = ((performance.now() - begunAt) / 1_000).toFixed(1)
  return `Tried ${tries} times in ${seconds} s at ${servers}.`
}

/** Waits. Rejects with the signal's reason when it aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await createNotifier().wait({ timeoutMs: Math.ceil(ms), signal })
}

/** Reads a Retry-After header: seconds, or a date. Returns 0 if the header is missing or invalid. */
export function retryAfterMs(header: string | null, now: number = Date.now()): number {
  if (header === null) return 0
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const at = Date.parse(header)
  return Number.isNaN(at) ? 0 : Math.max(0, at - now)
}

/**
 * The servers of one client, which share a store. A client stays with a server that works and changes to the next when
 * it fails. Each client has its own random order, so the clients of a dead server spread over the others.
 */
export class Servers {
  readonly #order: readonly string[]
  #index = 0

  constructor(urls: readonly string[], random: () => number = Math.random) {
    this.#order = shuffle(urls, random)
  }

  /** The server for the next try. */
  get current(): string {
    return this.#order[this.#index]!
  }

  get size(): number {
    return this.#order.length
  }

  /** Changes to the next server, unless another call has already left this one. */
  leave(url: string): void {
    if (this.current === url) this.#index = (this.#index + 1) % this.size
  }

  /** All of them, for messages. */
  toString(): string {
    return this.#order.map((url) => new URL(url).origin).join(', ')
  }
}

/** The same items in a random order. */
export function shuffle<Item>(items: readonly Item[], random: () => number): readonly Item[] {
  const order = [...items]
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    ;[order[last], order[other]] = [order[other]!, order[last]!]
  }
  return order
}
