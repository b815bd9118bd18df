import type { Duration } from '../../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import type { Route, Shape } from '../contract/index.ts'

/**
 * What a call takes, as its route says: parameters of the path, query and body. A part that the route has not cannot be
 * given, and one that has a field without a default must be.
 */
export type CallInput<S extends Shape> = Part<S, 'params'> & Part<S, 'query'> & BodyPart<S>

type Part<S extends Shape, Name extends keyof Shape> = Name extends keyof S
  ? Record<never, never> extends S[Name]
    ? { readonly [Key in Name]?: S[Name] | undefined }
    : { readonly [Key in Name]: S[Name] }
  : { readonly [Key in Name]?: undefined }

type BodyPart<S extends Shape> = 'body' extends keyof S
  ? Record<never, never> extends S['body']
    ? { readonly body?: S['body'] | JsonText | undefined }
    : { readonly body: S['body'] | JsonText }
  : { readonly body?: undefined }

/** How a call is made, whatever it asks. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** @default the client's */
  readonly timeoutMs?: Duration | undefined
  /**
   * Names what is asked, so that asking twice does it once. @default one of its own for every call that changes
   * something, the same for each of its tries
   */
  readonly idempotencyKey?: string | undefined
  /** A longer reply is not read to its end. @default 8 MiB */
  readonly maxReplyBytes?: number | undefined
}

/** The arguments after the route; none are needed when the route needs none. */
export type CallArguments<S extends Shape> =
  Record<never, never> extends CallInput<S>
    ? [options?: CallInput<S> & CallOptions]
    : [options: CallInput<S> & CallOptions]

/** A body that is JSON text already and is sent as it stands. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Where a route is, with its parameters filled in. */
export function targetOf(route: Route, params: unknown, query: unknown): string {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    segment(name, (params as Record<string, unknown> | undefined)?.[name]),
  )
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries((query ?? {}) as Record<string, unknown>))
    if (value !== undefined && value !== null) search.set(name, String(value))
  return search.size === 0 ? path : `${path}?${search}`
}

function segment(name: string, value: unknown): string {
  // Whoever handles a URL takes these for "here" and "up", also when they are percent-encoded.
  if (typeof value === 'string' && value !== '' && value !== '.' && value !== '..')
    return encodeURIComponent(value.toWellFormed())
  throw new SignalboxError(
    'invalid_argument',
    `${name} must be text that can stand in a path, not ${show(value)}.`,
    { details: { option: name } },
  )
}

/** The body as text; undefined when there is none. */
export function bodyText(body: unknown): string | undefined {
  if (body === undefined) return undefined
  return body instanceof JsonText ? body.text : JSON.stringify(body)
}

/** The answer, or undefined where there is no such thing. */
export async function orUndefined<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  try {
    return await promise
  } catch (error) {
    if (isSignalboxError(error, 'not_found')) return undefined
    throw error
  }
}
