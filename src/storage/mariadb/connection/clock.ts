/**
 * The database's clock as SQL, in epoch milliseconds, whatever the session's time zone, DST or sql_mode.
 *
 * `nowMs` is the start of the statement: a constant to the optimizer, so indexes can be searched by it, and it moves
 * on from statement to statement inside a transaction. `movingMs` also moves while a statement waits for a lock, so a
 * lease that runs out during the wait is not taken for live; SYSDATE is not constant, so no index is searched by it.
 */
export const nowMs = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"
export const movingMs: string = `(${nowMs} + TIMESTAMPDIFF(MICROSECOND, NOW(3), SYSDATE(3)) DIV 1000)`
/** As `nowMs`, in microseconds. */
export const nowMicros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
