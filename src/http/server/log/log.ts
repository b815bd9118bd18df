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
 * The log: one event, one line of JSON, inert and without secrets (log-line.ts). Bodies and payloads are never given to
 * it. It never waits for its reader, and buffers little (log-writer.ts).
 */
export interface Log extends AsyncDisposable {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  /** An `error` field that holds an Error is written with its code, stack and causes. */
  error(event: string, fields?: LogFields): void
  /** One answered request, at level info. */
  request(line: RequestLine): void
  /** How many lines were dropped because the destination did not take them. */
  readonly droppedCount: number
  /** Waits until the destination has taken everything, up to a time limit. */
  flush(timeoutMs?: number): Promise<void>
}

/** What a log can be told. */
export interface LogOptions {
  /** The least that is written. @default 'info' */
  readonly level?: LogLevel
  /** Where lines go. @default process.stdout */
  readonly destination?: LogDestination
  /** Leaves out health probes and scrapes that were answered well. @default false */
  readonly quietHealth?: boolean
  /** How much may wait for the destination before lines are dropped. @default 1_048_576 */
  readonly maxBufferBytes?: number
}

/** What a log does unless told otherwise. */
export const logDefaults: Required<Omit<LogOptions, 'destination'>> = {
  level: 'info',
  quietHealth: false,
  maxBufferBytes: 1_048_576,
}

export function createLog(options: LogOptions = {}): Log {
  const { destination = process.stdout, ...others } = options
  const given = withDefaults('log', others, logDefaults)
  const least = logLevels.indexOf(oneOf('log.level', given.level, logLevels))
  const quietHealth = flag('log.quietHealth', given.quietHealth)
  const maxBufferBytes = whole('log.maxBufferBytes', given.maxBufferBytes, { min: 1_024 })
  const writer = createLogWriter(destination, maxBufferBytes)
  const writes = (level: LogLevel) => least <= logLevels.indexOf(level)
  const teller = (level: LogLevel) => {
    if (!writes(level)) return () => {}
    return (event: string, fields: LogFields = {}) => {
      writer.write(eventLine(level, event, fields))
      // The process may be about to end because of it.
      if (level === 'error') writer.push()
    }
  }
  const writesRequests = writes('info')

  return {
    debug: teller('debug'),
    info: teller('info'),
    warn: teller('warn'),
    error: teller('error'),
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

/** The id of a request: what its sender calls it when that is 1 to 64 harmless characters, else a new one. */
export function requestIdOf(header: string | undefined): string {
  return header !== undefined && harmlessId.test(header) && redact(header) === header ? header : createId()
}

const harmlessId = /^[\w.:~@+/=-]{1,64}$/

function isProbe(route: string | undefined): boolean {
  return route === 'livez' || route === 'readyz' || route === 'metrics'
}

/** The part of a writable stream that is used. */
export interface LogDestination {
  write(text: string, taken: (error?: Error | null) => void): unknown
  on?(event: 'error', listener: (error: Error) => void): unknown
  off?(event: 'error', listener: (error: Error) => void): unknown
}

/**
 * Writes lines to a stream without ever waiting for it and without ever keeping much. Lines of one turn go out
 * together. What the stream has not taken yet counts against a limit; above it lines are dropped and counted, and once
 * there is room again a line says how many.
 */
function createLogWriter(destination: LogDestination, maxBufferBytes: number) {
  let lines = ''
  let lineBytes = 0
  let lineCount = 0
  /** Handed to the stream and not taken yet. */
  let outBytes = 0
  let droppedCount = 0
  let untoldCount = 0
  let scheduled: NodeJS.Immediate | undefined
  let isClosed = false
  const waiting = new Set<() => void>()
  // A reader that has gone is no reason to end the process, which is what an unheard error does.
  const ignore = () => {}
  let isListening = false

  function drop(count: number): void {
    droppedCount += count
    untoldCount += count
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
    let isTaken = false
    const taken = (error?: Error | null) => {
      if (isTaken) return
      isTaken = true
      outBytes -= bytes
      if (error) drop(count)
      else tellDropped()
      if (outBytes === 0 && lines === '') for (const done of waiting) done()
    }
    try {
      destination.write(text, taken)
    } catch (error) {
      taken(error as Error)
    }
  }

  function tellDropped(): void {
    if (untoldCount === 0) return
    const count = untoldCount
    // The line about it does not come before there is room for it.
    if (keep(eventLine('warn', 'log.dropped', { count }))) untoldCount -= count
  }

  return {
    write(line: string): void {
      if (!keep(line)) drop(1)
    },
    /** Hands over what is there now, not at the end of the turn. */
    push,
    get droppedCount(): number {
      return droppedCount
    },
    /** Waits until the stream has taken everything, at most so long. */
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
      // Lines on their way may still fail, so keep listening for errors until they have been taken.
      if (outBytes === 0 && isListening) destination.off?.('error', ignore)
    },
  }
}

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
