import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'

/**
 * Translates errors of the driver and the server. There are three important kinds: the server gave this transaction up
 * (it can be retried), the connection is lost, or the call took too long.
 */

/** Deadlock, lock wait timeout, a row that changed since the snapshot (`innodb_snapshot_isolation`). */
const conflicts: ReadonlySet<number> = new Set([1213, 1205, 1020])
/** A statement that exceeded `max_statement_time`. */
const slow = 1969
/** Too many connections, shutting down, killed, access, no such database, read-only. */
const refusals: ReadonlySet<number> = new Set([
  1040, 1044, 1045, 1049, 1053, 1129, 1130, 1142, 1143, 1203, 1226, 1290, 1698, 1836, 1927, 3159,
])

export function errnoOf(error: unknown): number | undefined {
  const { errno } = (error ?? {}) as { errno?: unknown }
  // The operating system's errors have a negative errno.
  return typeof errno === 'number' && errno > 0 ? errno : undefined
}

/** Whether the server gave up the transaction or the statement, so that it can be retried. */
export function isConflict(error: unknown): boolean {
  const errno = errnoOf(error)
  return errno !== undefined && conflicts.has(errno)
}

/** The error of a lock wait timeout, for a caller that finds a row locked and does not wait for it. */
export function lockedByOthers(doing: string): Error {
  return Object.assign(new Error(`could not ${doing}: its row is locked by another transaction`), {
    errno: 1205,
  })
}

/** Whether the connection is lost: the driver's own errors are fatal, or have no number of the server. */
export function isLost(error: unknown): boolean {
  const { fatal, code } = (error ?? {}) as { fatal?: unknown; code?: unknown }
  const errno = errnoOf(error)
  if (errno === 1053 || errno === 1927) return true
  return (
    fatal === true ||
    (errno === undefined &&
      typeof code === 'string' &&
      /^(E[A-Z]+|PROTOCOL_CONNECTION_LOST|PROTOCOL_PACKETS_OUT_OF_ORDER)$/.test(code))
  )
}

/** Whether a store's call failed because the connection was lost, or because no answer came in time. */
export function isAnswerLost(error: unknown): boolean {
  if (!isSignalboxError(error, 'store_unavailable')) return false
  return error.cause === undefined || isLost(error.cause)
}

/**
 * The error with which a store's call fails. An error from neither the server nor the driver is a defect, and stays
 * unchanged.
 */
export function toStoreError(error: unknown, doing: string): unknown {
  if (isSignalboxError(error)) return error
  const errno = errnoOf(error)
  if (errno === undefined && !isLost(error) && (error as { code?: unknown } | null)?.code === undefined)
    return error
  const said = error instanceof Error ? error.message : String(error)
  if (isConflict(error) || errno === slow) {
    return new SignalboxError(
      'store_busy',
      `MariaDB could not ${doing} in time, others hold the rows: ${said}`,
      {
        cause: error,
      },
    )
  }
  if (errno === 1146) {
    return new SignalboxError(
      'schema_missing',
      `MariaDB could not ${doing}: a table is missing. Run \`signalbox migrate up\`.`,
      { cause: error },
    )
  }
  if (isLost(error) || (errno !== undefined && refusals.has(errno))) {
    return new SignalboxError(
      'store_unavailable',
      `MariaDB could not be reached to ${doing}: ${said}. Signalbox tries again.`,
      { cause: error },
    )
  }
  return new SignalboxError('store_unavailable', `MariaDB refused to ${doing}: ${said}`, { cause: error })
}
