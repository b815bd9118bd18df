import { type Clock, systemClock } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import { KeptLease } from '../core/kept-lease.ts'
import { callable, onlyKeys } from '../core/options.ts'
import { isDown } from './guard-claims.ts'
import type { ClaimAnswer, RunAnswer } from './guard-store.ts'
import type { Once } from './once.ts'
import { type ClaimOptions, leaseSpan } from './once-options.ts'

/** What the function under a guard is given. */
export interface GuardedRun {
  /** Aborts when the claim is lost, and when the caller's own signal does. */
  readonly signal: AbortSignal
  /** Rises with every claim of the key: pass it to the resource that is written as a fence. */
  readonly token: string
  /** 1, or more when it failed before. */
  readonly attempt: number
}

export interface RunOptions extends Omit<ClaimOptions, 'space'> {
  /** Aborts the signal that the function is given. */
  readonly signal?: AbortSignal | undefined
}

export interface ProcessingOptions {
  /** How long the task stays claimed when its process died. @default 30_000 */
  readonly ttlMs?: Duration | undefined
  readonly signal?: AbortSignal | undefined
}

/** Where keys are claimed: in this process, or over the wire. */
export type OncePlace = Pick<Once, 'claim' | 'done' | 'fail' | 'renew'>

/** How a run under a guard is made. */
export interface GuardedRunParts {
  /** What a result comes to whose `done` the store did not take: it is given on, flagged, or the error is thrown. */
  readonly whenDown: 'open' | 'closed'
  readonly clock?: Clock | undefined
}

/** Runs `fn` if the key is to be run, and notes how it ended. By the verbs of `place` alone, wherever that is. */
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

/** The same for a task that is claimed only while it runs: its result is not kept. */
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
  // What the store knows nothing of, and what a transaction keeps, is not renewed.
  const isKept = degraded === undefined && claim.tx === undefined
  const lease = isKept ? new KeptLease({ leaseMs, sentAt, renew, lost, clock }) : undefined
  const flag = degraded && { degraded }
  let result: Result
  try {
    const signals = [signal, lease?.signal].filter((one) => one !== undefined)
    result = await fn({ signal: AbortSignal.any(signals), token, attempt })
  } catch (error) {
    lease?.stop()
    // Whether it took or not, the caller gets what ended the work.
    await place.fail(key, token, where).catch(() => undefined)
    throw error
  }
  lease?.stop()
  if (lease?.isRefused) throw lost()
  try {
    await place.done(key, token, claim.space === 'processing' ? undefined : result, where)
  } catch (error) {
    // It ran, and only the store does not know. A transaction says itself how it ended.
    if (whenDown === 'open' && claim.tx === undefined && isDown(error))
      return { ran: true, result, degraded: true }
    // A result that cannot be stored: at least once, it may be tried again; at most once, an operator has to look.
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
