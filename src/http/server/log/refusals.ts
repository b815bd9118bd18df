import { type Clock, systemClock } from '../../../core/clock.ts'
import type { Log } from './log.ts'
import type { LogFields } from './log-line.ts'

/**
 * What the server refuses or cuts below HTTP, where no request is logged or counted: each is counted by its reason and
 * written to the log. A flood does not fill the log: each reason gets a few lines in ten seconds, and then one line that says
 * how many were left out.
 */
export interface Refusals {
  refused(reason: RefusalReason, fields?: LogFields): void
  /** Logs what was left out so far, and sets no more timers. */
  close(): void
}

/** Every reason. docs/observability.md says what each means. */
export const refusalReasons = [
  'tls_handshake',
  'parse_error',
  'oversized_head',
  'headers_timeout',
  'request_timeout',
  'cut_request',
  'cut_stream',
  'connection_limit',
  'upgrade_refused',
  'connect_refused',
] as const

export type RefusalReason = (typeof refusalReasons)[number]

export interface RefusalsParts {
  count(reason: RefusalReason): void
  readonly log?: Pick<Log, 'warn'> | undefined
  readonly clock?: Clock
}

/** How many lines one reason may write within `windowMs`. */
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
