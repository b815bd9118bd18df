import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'

/**
 * What the driver and the server say, in our words. Three kinds matter: the server chose this transaction to give up
 * (it can be tried again), the connection is gone, or the call took too long.
 */

/** Deadlock, lock wait, a row changed since the snapshot (`innodb_snapshot_isolation`). */
const conflicts: ReadonlySet<number> = new Set([1213, 1205, 1020])
/** A statement that ran into `max_statement_time`. */
const slow = 1969
/** Too many connections, shutting down, killed, access, no such database, read-only. */
const refusals: ReadonlySet<number> = new Set([
  1040, 1044, 1045, 1049, 1053, 1129, 1130, 1142, 1143, 1203, 1226, 1290, 1698, 1836, 1927, 3159,
])

export function errnoOf(error: unknown): number | undefined {
  const { errno } = (error ?? {}) as { errno?: unknown }
  // The operating system's errors have an errno too, which is negative.
  return typeof errno === 'number' && errno > 0 ? errno : undefined
}

/** Whether the server gave the transaction or the statement up and it can be tried again. */
export function isConflict(error: unknown): boolean {
  const errno = errnoOf(error)
  return errno !== undefined && conflicts.has(errno)
}

/** What a lock wait that was over would be: for who finds a row locked and did not wait for it. */
export function lockedByOthers(doing: string): Error {
  return Object.assign(new Error(`could not ${doing}: its row is locked by another transaction`), {
    errno: 1205,
  })
}

/** Whether the connection itself is gone: the driver's own errors are fatal, or have no number of the server's. */
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

/** Whether a call of a store failed because the connection was lost, or gave no answer in time. */
export function isAnswerLost(error: unknown): boolean {
  if (!isSignalboxError(error, 'store_unavailable')) return false
  return error.cause === undefined || isLost(error.cause)
}

/** The error a store's call ends in. What neither the server nor the driver said is a defect, and is seen as it is. */
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
