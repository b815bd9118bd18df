import { type Clock, systemClock } from '../core/clock.ts'
import type { Log } from './log.ts'
import type { LogFields } from './logline.ts'

/**
 * What the server refuses or cuts below HTTP, where no request is logged or counted: each is counted by its reason and
 * written to the log. A flood does not flood the log: of each reason a few lines are written in a while, and then one
 * line says how many were left out.
 */
export interface Refusals {
  refused(reason: RefusalReason, fields?: LogFields): void
  /** Says what was left out so far, and arms no timer any more. */
  close(): void
}

/** Every reason, and what it means. */
export const refusalReasons = {
  tls_handshake: 'a TLS handshake failed: no certificate that counts, plain HTTP, or a client that left',
  parse_error: 'what came is not HTTP',
  oversized_head: 'the head of a request is larger than `maxHeaderBytes`',
  headers_timeout: 'a head did not come whole within `headersTimeout`',
  request_timeout: 'a request did not come whole within `requestTimeout`',
  cut_request: 'a client left in the middle of its request',
  cut_stream: 'a client did not read a stream or an answer fast enough',
  connection_limit: 'a connection was above a cap',
  upgrade_refused: 'a WebSocket was refused',
  connect_refused: 'a CONNECT was refused',
} as const

export type RefusalReason = keyof typeof refusalReasons

export interface RefusalsParts {
  count(reason: RefusalReason): void
  readonly log?: Pick<Log, 'warn'> | undefined
  readonly clock?: Clock
}

/** So many lines are written of one reason within so long. */
const maxLines = 5
const windowMs = 10_000

/** What was written of one reason since its first line. */
interface Window {
  readonly timer: unknown
  lineCount: number
  suppressedCount: number
}

export function createRefusals({ count, log, clock = systemClock }: RefusalsParts): Refusals {
  const windows = new Map<RefusalReason, Window>()
  let isClosed = false

  function end(reason: RefusalReason): void {
    const window = windows.get(reason)
    windows.delete(reason)
    if (window === undefined) return
    clock.clearTimeout(window.timer as never)
    const { suppressedCount } = window
    if (suppressedCount > 0) log?.warn('connection.refused', { reason, suppressedCount })
  }

  function begin(reason: RefusalReason): Window {
    const timer = clock.setTimeout(() => end(reason), windowMs)
    ;(timer as { unref?(): void }).unref?.()
    const window = { timer, lineCount: 0, suppressedCount: 0 }
    windows.set(reason, window)
    return window
  }

  return {
    refused(reason, fields) {
      count(reason)
      if (log === undefined || isClosed) return
      const window = windows.get(reason) ?? begin(reason)
      if (window.lineCount < maxLines) {
        window.lineCount++
        log.warn('connection.refused', { reason, ...fields })
      } else window.suppressedCount++
    },
    close() {
      isClosed = true
      for (const reason of [...windows.keys()]) end(reason)
    },
  }
}
