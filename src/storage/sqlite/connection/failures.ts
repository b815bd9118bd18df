import { SignalboxError } from '../../../core/errors.ts'

/**
 * What SQLite's errors mean to a caller. Busy means that another process has the lock and the call may be tried again;
 * disk, file and memory faults mean that the store is not there; everything else is the statement's own fault and is
 * passed on as it is.
 */

/** Primary result codes of SQLite; an extended code keeps its primary one in the low byte. */
const primary = {
  busy: 5,
  nomem: 7,
  readonly: 8,
  ioerr: 10,
  corrupt: 11,
  full: 13,
  cantopen: 14,
  protocol: 15,
}
const unavailable: readonly number[] = [
  primary.nomem,
  primary.readonly,
  primary.ioerr,
  primary.corrupt,
  primary.full,
  primary.cantopen,
]
const notADatabase = 26

function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined
  return error.errcode & 0xff
}

/** Another connection has the lock. `protocol` is the same, found while WAL's own locks were contended. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error)
  return code === primary.busy || code === primary.protocol
}

/** A disk that failed: whether what was being written survives a crash is not known to this connection any more. */
export function isInputOutput(error: unknown): boolean {
  return codeOf(error) === primary.ioerr
}

/** The connection, or its file, may only be read. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === primary.readonly
}

/** What a caller is told: the fault in our terms, or the error itself when it is the statement's own. */
export function explain(error: unknown): unknown {
  const code = codeOf(error)
  if (code === undefined) return error
  const cause = { cause: error }
  if (isBusy(error)) return busy(error)
  if (code === notADatabase) {
    return new SignalboxError('engine_unsupported', 'This file is not a SQLite database.', cause)
  }
  if (!unavailable.includes(code)) return error
  const why = (error as Error).message
  return new SignalboxError(
    'store_unavailable',
    `SQLite could not read or write its file (${why}); this call wrote nothing. Check the disk's space and health, and the permissions of the file.`,
    cause,
  )
}

/** The lock did not come free in time. */
export function busy(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'store_busy',
    'The SQLite file is being written by another process or another open transaction, and did not come free in time. Keep transactions short; inside one, hand it on as { tx }.',
    cause === undefined ? {} : { cause },
  )
}

/** The store was closed. */
export function closed(): SignalboxError {
  return new SignalboxError('closed', 'This SQLite store was closed. Open it again.')
}
