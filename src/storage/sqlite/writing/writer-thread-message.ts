import { type ErrorCode, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { Location } from '../connection/connection.ts'
import type { ReportedTurns } from './write-queue-meter.ts'
import type { WriteCall } from './writes.ts'

/**
 * The messages between the calling thread and the writer thread. Calls and answers cross as JSON text, many in one
 * message: a text crosses unchanged, but an object would be cloned value by value. Each is encoded separately, so one
 * that cannot be encoded fails alone.
 */
/** The data with which a thread starts. */
export interface ThreadData {
  readonly location: Location
  readonly isMetered: boolean
}

export type ToThread =
  /** `since`: the time of the first request, in epoch milliseconds. */
  | { readonly calls: string; readonly since: number }
  | { readonly watch: boolean }
  /** Run the pending calls, then end. */
  | { readonly close: true }

export type FromThread =
  /** `turns`: the turns of the write queue since the last message, if there is a meter. */
  | { readonly answers: string; readonly turns?: ReportedTurns | undefined }
  /** Another process committed something. */
  | { readonly news: true }

/** A call: its number, its age in microseconds after the first call of its message, and the call itself. */
export type NumberedCall = readonly [
  id: number,
  afterUs: number,
  operation: WriteCall['operation'],
  namespace: string,
  args: WriteCall['args'],
  key?: WriteCall['key'],
]

export function encodeCall(
  id: number,
  { operation, namespace, args, key }: WriteCall,
  afterUs: number,
): string {
  const call: NumberedCall = [id, afterUs, operation, namespace, args]
  return JSON.stringify(key === undefined ? call : [...call, key])
}

/** An answer: the number of its call, and a value or an error. Without a value the answer is undefined. */
export type Answer = readonly [id: number, value?: unknown, failed?: Failure]

export function encodeAnswerTo(id: number, value: unknown): string {
  return value === undefined ? `[${id}]` : `[${id},${JSON.stringify(value)}]`
}

export function encodeFailure(id: number, error: unknown): string {
  return `[${id},null,${JSON.stringify(describe(error))}]`
}

export function encodeAll(texts: readonly string[]): string {
  return `[${texts.join()}]`
}

export function decodeAll<Item>(text: string): readonly Item[] {
  return JSON.parse(text)
}

/** An error as plain data. */
export interface Failure {
  readonly isOurs: boolean
  readonly name: string
  readonly message: string
  readonly code?: unknown
  /** SQLite's own error number. */
  readonly errcode?: unknown
  readonly details?: Readonly<Record<string, unknown>>
  readonly cause?: Failure
}

function describe(error: unknown): Failure {
  if (!(error instanceof Error)) return { isOurs: false, name: 'Error', message: String(error) }
  const { name, message, cause } = error
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  const more = cause === undefined ? {} : { cause: describe(cause) }
  if (isSignalboxError(error)) return { isOurs: true, name, message, code, details: error.details, ...more }
  return { isOurs: false, name, message, code, errcode, ...more }
}

/** Restores the error, as if it had been thrown in this thread. */
export function reviveError({ isOurs, name, message, code, errcode, details, cause }: Failure): Error {
  const causes = cause === undefined ? {} : { cause: reviveError(cause) }
  if (isOurs) return new SignalboxError(code as ErrorCode, message, { details: details ?? {}, ...causes })
  const error = Object.assign(new Error(message, causes), { name })
  if (code !== undefined) Object.assign(error, { code })
  if (errcode !== undefined) Object.assign(error, { errcode })
  return error
}
