import { type Clock, systemClock } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import { KeptLease } from '../core/kept-lease.ts'
import { callable, onlyKeys } from '../core/options.ts'
import { isDown } from './guard-claims.ts'
import type { ClaimAnswer, RunAnswer } from './guard-store.ts'
import type { Once } from './once.ts'
import { type ClaimOptions, leaseSpan } from './once-options.ts'

/** The argument of a function that runs under a guard. */
export interface GuardedRun {
  /** Aborts when the claim is lost, and when the caller's own signal does. */
  readonly signal: AbortSignal
  /** The token rises with every claim of the key. Pass it as a fence to the resource that the function writes. */
  readonly token: string
  /** The number of the attempt: 1, or more after failures. */
  readonly attempt: number
}

export interface RunOptions extends Omit<ClaimOptions, 'space'> {
  /** Aborts the signal of the function. */
  readonly signal?: AbortSignal | undefined
}

export interface ProcessingOptions {
  /** How long the task stays claimed after its process died. @default 30_000 */
  readonly ttlMs?: Duration | undefined
  readonly signal?: AbortSignal | undefined
}

/** The guards that a run uses: of this process, or of a server. */
export type OncePlace = Pick<Once, 'claim' | 'done' | 'fail' | 'renew'>

/** The parts of a run under a guard. */
export interface GuardedRunParts {
  /** If the store does not answer `done`: `open` returns the result as degraded, `closed` throws the error. */
  readonly whenDown: 'open' | 'closed'
  readonly clock?: Clock | undefined
}

/** Runs `fn` if the claim succeeds, and records how it ended. */
export async function runOnce<Result>(
  place: OncePlace,
  key: string,
  fn: (run: GuardedRun) => Promise<Result> | Result,
  options: RunOptions,
  parts: GuardedRunParts,
): Promise<RunAnswer<Result>> {
  onlyKeys('run', options, ['leaseMs', 'keepMs', 'fingerprint', 'mode', 'tx', 'signal'])
  const { signal, ...claim } = options
  return runGuarded(place, key, callable('run', fn), claim, signal, parts)
}

/** Runs a task that is claimed only while it runs: its result is not kept. */
export async function runProcessing<Result>(
  place: OncePlace,
  taskId: string,
  fn: (run: GuardedRun) => Promise<Result> | Result,
  options: ProcessingOptions,
  parts: GuardedRunParts,
): Promise<RunAnswer<Result>> {
  onlyKeys('processing', options, ['ttlMs', 'signal'])
  const { ttlMs = 30_000, signal } = options
  const claim = { space: 'processing', leaseMs: leaseSpan('processing.ttlMs', ttlMs) } as const
  return runGuarded(place, taskId, callable('processing', fn), claim, signal, parts)
}

async function runGuarded<Result>(
  place: OncePlace,
  key: string,
  fn: (run: GuardedRun) => Promise<Result> | Result,
  claim: ClaimOptions,
  signal: AbortSignal | undefined,
  { whenDown, clock = systemClock }: GuardedRunParts,
): Promise<RunAnswer<Result>> {
  signal?.throwIfAborted()
  const sentAt = clock.now()
  const answer: ClaimAnswer = await place.claim(key, claim)
  if (answer.status !== 'run') return notRun(answer)
  const { token, attempt, degraded } = answer
  const where = { space: claim.space, tx: claim.tx }
  const leaseMs = leaseSpan('leaseMs', claim.leaseMs ?? 30_000)
  const lost = () => claimLost(key, leaseMs)
  const renew = () => place.renew(key, token, leaseMs, where)
  // A degraded claim is unknown to the store, and a claim in a transaction needs no renewal.
  const isKept = degraded === undefined && claim.tx === undefined
  const lease = isKept ? new KeptLease({ leaseMs, sentAt, renew, lost, clock }) : undefined
  const flag = degraded && { degraded }
  let result: Result
  try {
    const signals = [signal, lease?.signal].filter((one) => one !== undefined)
    result = await fn({ signal: AbortSignal.any(signals), token, attempt })
  } catch (error) {
    lease?.stop()
    // Even if this write fails, the caller gets the error of the work.
    await place.fail(key, token, where).catch(() => undefined)
    throw error
  }
  lease?.stop()
  if (lease?.isRefused) throw lost()
  try {
    await place.done(key, token, claim.space === 'processing' ? undefined : result, where)
  } catch (error) {
    // The function ran; only the store does not know. With a transaction, the commit decides.
    if (whenDown === 'open' && claim.tx === undefined && isDown(error))
      return { ran: true, result, degraded: true }
    // The result cannot be stored. At-least-once: the key may be claimed again. At-most-once: an operator must decide.
    if (isBadResult(error) && claim.mode !== 'at-most-once')
      await place.fail(key, token, where).catch(() => undefined)
    throw error
  }
  return { ran: true, result, ...flag }
}

function isBadResult(error: unknown): boolean {
  return isSignalboxError(error, 'invalid_argument') || isSignalboxError(error, 'too_large')
}

function notRun(answer: Exclude<ClaimAnswer, { status: 'run' }>): Extract<RunAnswer<never>, { ran: false }> {
  return { ran: false, ...answer }
}

function claimLost(key: string, leaseMs: number): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `The claim of ${JSON.stringify(key)} was lost: it was not renewed within its ${leaseMs} ms. Raise leaseMs or free the event loop.`,
    { details: { key } },
  )
}
