/**
 * The database's clock as SQL, in epoch milliseconds, independent of the session's time zone, DST and sql_mode.
 *
 * `nowMs` is the start of the statement. The optimizer treats it as a constant, so index searches can use it. In a
 * transaction it advances from statement to statement. `movingMs` also advances while a statement waits for a lock, so
 * a lease that expires during the wait does not count as live. SYSDATE is not constant, so no index search can use it.
 */
export const nowMs = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"
export const movingMs: string = `(${nowMs} + TIMESTAMPDIFF(MICROSECOND, NOW(3), SYSDATE(3)) DIV 1000)`
/** Like `nowMs`, in microseconds. */
export const nowMicros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
