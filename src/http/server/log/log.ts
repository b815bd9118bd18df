import { createId } from '../../../core/ids.ts'
import { flag, oneOf, whole, withDefaults } from '../../../core/options.ts'
import {
  eventLine,
  type LogFields,
  type LogLevel,
  logLevels,
  type RequestLine,
  requestLine,
} from './log-line.ts'
import { createLogWriter, type LogDestination } from './log-writer.ts'
import { redact } from './redact.ts'

/**
 * The log: one event, one line of JSON, inert and without secrets (log-line.ts). Bodies and payloads are never given to
 * it. It never waits for whoever reads it, and keeps little for them (log-writer.ts).
 */
export interface Log extends AsyncDisposable {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  /** An `error` field that holds an Error is written with its code, stack and causes. */
  error(event: string, fields?: LogFields): void
  /** One answered request, at level info. */
  request(line: RequestLine): void
  /** How many lines were dropped because nobody took them. */
  readonly droppedCount: number
  /** Waits until everything has been taken, at most so long. */
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
  const writer = createLogWriter({
    destination,
    maxBufferBytes: whole('log.maxBufferBytes', given.maxBufferBytes, { min: 1_024 }),
    droppedLine: (count) => eventLine('warn', 'log.dropped', { count }),
  })
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
