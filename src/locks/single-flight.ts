import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { callable, onlyKeys } from '../core/options.ts'
import { awaitTurn, type Held, type HoldOptions, type LockCalls } from './held-lock.ts'

/**
 * One requester does the work. The others wait and check again.
 *
 *     check ── there ─────────────────────────────▶ its value
 *       ▲  └── not there ──▶ ask ── granted ──▶ check once more ──▶ run ──▶ success: all waiters are notified
 *       └──── completed ◀──── wait ◀── queued        failure: the next waiter is granted
 */
export interface FlightOptions<Value> extends Omit<HoldOptions, 'requestId' | 'wait'> {
  /** Returns the value if the work is done, else undefined. Called before asking and after every change. */
  readonly check: () => Promise<Value | undefined> | Value | undefined
  /** Does the work. If it throws, the next waiter tries; an error with `terminal: true` ends the wait of all. */
  readonly run: (held: Held) => Promise<Value> | Value
}

export async function runSingleFlight<Value>(
  locks: LockCalls,
  operation: string,
  resource: string,
  options: FlightOptions<Value>,
): Promise<Value> {
  onlyKeys('singleFlight', options, ['node', 'ttlMs', 'deadlineMs', 'signal', 'check', 'run'])
  const { check, run, ...rest } = options
  callable('singleFlight.check', check)
  callable('singleFlight.run', run)
  // Keep the requestId: a caller that finds nothing after a success asks again from its old position.
  const requestId = createId()
  for (let isNew = true; ; isNew = false) {
    const present = await check()
    if (present !== undefined) return present
    const turn = await awaitTurn(locks, operation, resource, { ...rest, requestId, isNew }, 'result')
    if (turn.status === 'granted') return await runAsHolder(turn.held, check, run)
    if (turn.status === 'failed' && turn.error.code !== 'lost') throw failed(turn.error)
  }
}

async function runAsHolder<Value>(
  held: Held,
  check: FlightOptions<Value>['check'],
  run: FlightOptions<Value>['run'],
): Promise<Value> {
  try {
    const value = (await check()) ?? (await run(held))
    await held.release({ outcome: 'success', ...resultOf(value) }).catch(ignoreUnknownCommit)
    return value
  } catch (error) {
    const terminal = (error as { terminal?: unknown } | null)?.terminal === true
    // If the lease is lost there is nothing to release. The caller gets the error that ended the work.
    await held.release({ outcome: 'failure', error, terminal }).catch(() => undefined)
    throw error
  }
}

/** The lock is no longer held, and the answer with the reason was lost. The work itself is done. */
function ignoreUnknownCommit(error: unknown): void {
  if (!isSignalboxError(error, 'commit_unknown')) throw error
}

/** A value that is not JSON is not sent: the waiters check for themselves. */
function resultOf(value: unknown): { readonly result?: unknown } {
  try {
    return value === undefined || JSON.stringify(value) === undefined
      ? {}
      : { result: JSON.parse(JSON.stringify(value)) }
  } catch {
    return {}
  }
}

function failed({ code, message }: { readonly code?: string; readonly message: string }): SignalboxError {
  if (code === 'timeout') return new SignalboxError('timeout', message)
  return new SignalboxError('conflict', `No holder succeeded: ${message}`)
}
