import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'

/**
 * Turns the error of a failed statement into the error for the caller. The database's error is the `cause`. Messages
 * never contain an address, because addresses may contain passwords.
 */

export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !networkCodes.has(code) ? code : undefined
}

const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOTFOUND',
  'ENOENT',
  'EACCES',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
])

/** The driver's messages for a connection that was lost or never opened. */
const lossWords =
  /connection terminated|connection error and is not queryable|was closed and is not queryable|query read timeout|server closed the connection|timeout expired|connection ended|client network socket disconnected|no route/i

/** Whether the connection was lost, so that the server rolls back its open transaction. */
export function isConnectionLoss(error: unknown): boolean {
  // A SignalboxError may quote user input that looks like a driver message.
  if (!(error instanceof Error) || error instanceof SignalboxError) return false
  const state = sqlState(error)
  if (state !== undefined) return state.startsWith('08') || shutdowns.has(state)
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string' && networkCodes.has(code)) return true
  return lossWords.test(error.message)
}

/** Whether a call of a store failed because the connection was lost. */
export function isAnswerLost(error: unknown): boolean {
  return isSignalboxError(error, 'store_unavailable') && isConnectionLoss(error.cause)
}

/** The server shuts down, crashed, is starting, or ended the session. */
const shutdowns = new Set(['57P01', '57P02', '57P03', '57P05', '25P03'])

/** Whether the transaction may be repeated: serialisation failure, deadlock, lock time-out. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error)
  return state === '40001' || state === '40P01' || state === '55P03'
}

/** Postgres refuses a value, such as a text with a NUL. The statement did nothing. */
export function isValueError(error: unknown): boolean {
  return sqlState(error)?.startsWith('22') === true
}

/** Turns an error of a statement of the store into a SignalboxError. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof SignalboxError) return error
  const state = sqlState(error) ?? ''
  if (/timeout exceeded when trying to connect/.test(String((error as Error)?.message))) {
    return new SignalboxError(
      'store_busy',
      'All connections to Postgres were in use and none came free in time. Raise `?pool=` in its address, or hold them shorter.',
      { cause: error },
    )
  }
  if (isConflict(error) || state === '57014') {
    return new SignalboxError(
      'store_busy',
      'Postgres did not execute this statement in time: other transactions held its locks. Try again.',
      { cause: error },
    )
  }
  if (state === '42P01' || state === '3F000' || state === '42883') {
    return new SignalboxError(
      'schema_missing',
      'This database has no Signalbox tables any more. Run `signalbox migrate up`, or open it with { migrate: true }.',
      { cause: error },
    )
  }
  if (isConnectionLoss(error) || refusals.test(state)) {
    return new SignalboxError(
      'store_unavailable',
      'Postgres cannot be reached or refused the call; the cause says why. Try again when it is back.',
      { cause: error },
    )
  }
  return error
}

/**
 * Login refused (28), no such database (3D), out of disk, memory or connections (53), disk errors (58), no permission.
 */
const refusals = /^(28...|3D...|53...|58...|42501|25006)$/
