import { SignalboxError } from '../../../core/errors.ts'

/**
 * Translates SQLite's errors for callers. Busy: another process has the lock, and the caller may retry. Errors of disk,
 * file or memory: the store is unavailable. Any other error is the statement's own and passes unchanged.
 */

/** SQLite's primary result codes. An extended code has its primary code in the low byte. */
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

/** Another connection has the lock. `protocol` means the same for the locks of WAL itself. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error)
  return code === primary.busy || code === primary.protocol
}

/** A disk error: this connection no longer knows whether a crash would lose the last write. */
export function isInputOutput(error: unknown): boolean {
  return codeOf(error) === primary.ioerr
}

/** The connection, or its file, is read-only. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === primary.readonly
}

/**
 * The error that the caller gets: a Signalbox error for a failure of the store, otherwise the statement's own error.
 */
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

/** The lock was not released in time. */
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
