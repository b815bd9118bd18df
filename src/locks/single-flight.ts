import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { callable, onlyKeys } from '../core/options.ts'
import { awaitTurn, type Held, type HoldOptions, type LockCalls } from './held-lock.ts'

/**
 * One does the work, the others wait and look again.
 *
 *     check ── there ─────────────────────────────▶ its value
 *       ▲  └── not there ──▶ ask ── granted ──▶ check once more ──▶ run ──▶ success: everybody is told
 *       └──── completed ◀──── wait ◀── queued        failure: the next waiter is granted
 */
export interface FlightOptions<Value> extends Omit<HoldOptions, 'requestId' | 'wait'> {
  /** Whether the work is done already: its value, or undefined. Called before asking and after every change. */
  readonly check: () => Promise<Value | undefined> | Value | undefined
  /** Does the work. When it throws, the next waiter tries; an error with `terminal: true` ends it for everybody. */
  readonly run: (held: Held) => Promise<Value> | Value
}

export async function createFlight<Value>(
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
    if (turn.status === 'granted') return await fly(turn.held, check, run)
    if (turn.status === 'failed' && turn.error.code !== 'lost') throw failed(turn.error)
  }
}

async function fly<Value>(
  held: Held,
  check: FlightOptions<Value>['check'],
  run: FlightOptions<Value>['run'],
): Promise<Value> {
  try {
    const value = (await check()) ?? (await run(held))
    await held.release({ outcome: 'success', ...resultOf(value) }).catch(unlessUnknown)
    return value
  } catch (error) {
    const terminal = (error as { terminal?: unknown } | null)?.terminal === true
    // When the lease is lost there is nothing left to release; the error that ended the work is the one to tell.
    await held.release({ outcome: 'failure', error, terminal }).catch(() => undefined)
    throw error
  }
}

/** The lock is not held any more, and the answer with the reason was lost. The work itself is done. */
function unlessUnknown(error: unknown): void {
  if (!isSignalboxError(error, 'commit_unknown')) throw error
}

/** What is no JSON is not told: those who waited look for themselves. */
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
