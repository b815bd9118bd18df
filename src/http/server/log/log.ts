import { type Clock, systemClock } from '../../../core/clock.ts'
import { createId } from '../../../core/ids.ts'
import { flag, oneOf, whole, withDefaults } from '../../../core/options.ts'
import {
  eventLine,
  type LogFields,
  type LogLevel,
  logLevels,
  type RequestLine,
  redact,
  requestLine,
} from './log-line.ts'

/**
 * The log: one event becomes one line of JSON, escaped and without secrets (log-line.ts). The server never logs bodies
 * and payloads. The log never waits for its destination, and its buffer is limited.
 */
export interface Log extends AsyncDisposable {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  /** If the field `error` is an Error, the line has its code, stack and causes. */
  error(event: string, fields?: LogFields): void
  /** One answered request, at level info. */
  request(line: RequestLine): void
  /** How many lines the log dropped, because the destination was too slow or failed. */
  readonly droppedCount: number
  /** Waits until the destination has written everything, up to a time limit. */
  flush(timeoutMs?: number): Promise<void>
}

/** Options of a log. */
export interface LogOptions {
  /** The lowest level that the log writes. @default 'info' */
  readonly level?: LogLevel
  /** The stream for the lines. @default process.stdout */
  readonly destination?: LogDestination
  /** Leaves out successful health probes and scrapes. @default false */
  readonly quietHealth?: boolean
  /** How many bytes may wait for the destination before the log drops lines. @default 1_048_576 */
  readonly maxBufferBytes?: number
}

/** The defaults of a log. */
const logDefaults: Required<Omit<LogOptions, 'destination'>> = {
  level: 'info',
  quietHealth: false,
  maxBufferBytes: 1_048_576,
}

export function createLog(options: LogOptions = {}): Log {
  const { destination = process.stdout, ...others } = options
  const given = withDefaults('log', others, logDefaults)
  const minLevel = logLevels.indexOf(oneOf('log.level', given.level, logLevels))
  const quietHealth = flag('log.quietHealth', given.quietHealth)
  const maxBufferBytes = whole('log.maxBufferBytes', given.maxBufferBytes, { min: 1_024 })
  const writer = createLogWriter(destination, maxBufferBytes)
  const writes = (level: LogLevel) => minLevel <= logLevels.indexOf(level)
  const writerOf = (level: LogLevel) => {
    if (!writes(level)) return () => {}
    return (event: string, fields: LogFields = {}) => {
      writer.write(eventLine(level, event, fields))
      // The process may end because of the error.
      if (level === 'error') writer.push()
    }
  }
  const writesRequests = writes('info')

  return {
    debug: writerOf('debug'),
    info: writerOf('info'),
    warn: writerOf('warn'),
    error: writerOf('error'),
    request(line) {
      if (!writesRequests) return
      if (quietHealth && line.status < 400 && isProbe(line.route)) return
      writer.write(requestLine(line))
    },
    get droppedCount() {
      return writer.droppedCount
    },
    flush: (timeoutMs = 1_000) => writer.flush(timeoutMs),
    async [Symbol.asyncDispose]() {
      await writer.flush(1_000)
      writer.close()
    },
  }
}

/** The id of a request: the sender's id if it has 1 to 64 harmless characters, else a new id. */
export function requestIdOf(header: string | undefined): string {
  return header !== undefined && harmlessId.test(header) && redact(header) === header ? header : createId()
}

const harmlessId = /^[\w.:~@+/=-]{1,64}$/

function isProbe(route: string | undefined): boolean {
  return route === 'livez' || route === 'readyz' || route === 'metrics'
}

/** The part of a writable stream that the log uses. */
interface LogDestination {
  write(text: string, onWritten: (error?: Error | null) => void): unknown
  on?(event: 'error', listener: (error: Error) => void): unknown
  off?(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * Writes lines to a stream without waiting for it. Lines of one turn of the event loop are written together. Bytes that
 * the stream has not written yet count against a limit. Above the limit, the log drops and counts lines. When the
 * buffer has space again, a line reports the number.
 */
function createLogWriter(destination: LogDestination, maxBufferBytes: number) {
  let lines = ''
  let lineBytes = 0
  let lineCount = 0
  /** Bytes that the stream has not written yet. */
  let outBytes = 0
  let droppedCount = 0
  let unreportedCount = 0
  let scheduled: NodeJS.Immediate | undefined
  let isClosed = false
  const waiting = new Set<() => void>()
  // An error without a listener would end the process, for example when the reader of a pipe ends.
  const ignore = () => {}
  let isListening = false

  function drop(count: number): void {
    droppedCount += count
    unreportedCount += count
  }

  function keep(line: string): boolean {
    const bytes = Buffer.byteLength(line)
    if (isClosed || outBytes + lineBytes + bytes > maxBufferBytes) return false
    lines += line
    lineBytes += bytes
    lineCount++
    scheduled ??= setImmediate(push)
    return true
  }

  function push(): void {
    clearImmediate(scheduled)
    scheduled = undefined
    if (lines === '') return
    const [text, bytes, count] = [lines, lineBytes, lineCount]
    lines = ''
    lineBytes = 0
    lineCount = 0
    outBytes += bytes
    if (!isListening) destination.on?.('error', ignore)
    isListening = true
    let isWritten = false
    const onWritten = (error?: Error | null) => {
      if (isWritten) return
      isWritten = true
      outBytes -= bytes
      if (error) drop(count)
      else reportDropped()
      if (outBytes === 0 && lines === '') for (const done of waiting) done()
    }
    try {
      destination.write(text, onWritten)
    } catch (error) {
      onWritten(error as Error)
    }
  }

  function reportDropped(): void {
    if (unreportedCount === 0) return
    const count = unreportedCount
    // If the buffer has no space for this line, a later write reports the number.
    if (keep(eventLine('warn', 'log.dropped', { count }))) unreportedCount -= count
  }

  return {
    write(line: string): void {
      if (!keep(line)) drop(1)
    },
    /** Writes the buffered lines now instead of at the end of the turn. */
    push,
    get droppedCount(): number {
      return droppedCount
    },
    /** Waits until the stream has written everything, up to the time limit. */
    async flush(timeoutMs: number): Promise<void> {
      push()
      if (outBytes === 0) return
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer)
          waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, timeoutMs)
        waiting.add(done)
      })
    },
    /** Writes nothing more. */
    close(): void {
      isClosed = true
      push()
      // Lines in flight may still fail, so the listener stays until they are written.
      if (outBytes === 0 && isListening) destination.off?.('error', ignore)
    },
  }
}

/**
 * Counts and logs connections and requests that the server refuses or cuts below HTTP, where no request is logged. A
 * flood does not fill the log: each reason gets a few lines in ten seconds, and then one line with the number of the
 * others.
 */
export interface Refusals {
  refused(reason: RefusalReason, fields?: LogFields): void
  /** Logs the numbers of suppressed lines, and stops all timers. */
  close(): void
}

/** All reasons. docs/observability.md explains them. */
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

interface RefusalsParts {
  count(reason: RefusalReason): void
  readonly log?: Pick<Log, 'warn'> | undefined
  readonly clock?: Clock
}

/** How many lines one reason may write within `windowMs`. */
const maxLines = 5
const windowMs = 10_000

/** The lines of one reason within its window. */
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
