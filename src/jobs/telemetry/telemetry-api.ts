import { SignalboxError } from '../../core/errors.ts'
import { flag } from '../../core/options.ts'

/**
 * The part of `@opentelemetry/api` that is used here, by its shape, so that whoever does without it needs neither the
 * package nor its types.
 */
export interface TelemetryApi {
  readonly trace: {
    getTracer(name: string): {
      startSpan(
        name: string,
        options: {
          readonly kind: number
          readonly attributes: Record<string, string | number | boolean>
          readonly links?: { readonly context: TelemetrySpanContext }[]
        },
        context: TelemetryContext,
      ): TelemetrySpan
    }
    // biome-ignore lint/suspicious/noExplicitAny: the API's own Span is more than what is used of it here.
    setSpan(context: TelemetryContext, span: any): TelemetryContext
    setSpanContext(context: TelemetryContext, spanContext: TelemetrySpanContext): TelemetryContext
  }
  readonly context: {
    active(): TelemetryContext
    with<Result>(context: TelemetryContext, call: () => Result): Result
  }
  readonly metrics: {
    getMeter(name: string): {
      createCounter(
        name: string,
        options: InstrumentOptions,
      ): {
        add(value: number, attributes: Record<string, string | number | boolean>): void
      }
      createHistogram(
        name: string,
        options: InstrumentOptions,
      ): {
        record(value: number, attributes: Record<string, string | number | boolean>): void
      }
    }
  }
  readonly ROOT_CONTEXT: TelemetryContext
}

interface InstrumentOptions {
  readonly description: string
  readonly unit: string
}

// biome-ignore lint/suspicious/noExplicitAny: it is handed from one call of the API to another, never looked at.
export type TelemetryContext = any

export interface TelemetrySpanContext {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
  readonly isRemote?: boolean
}

export interface TelemetrySpan {
  spanContext(): TelemetrySpanContext
  setAttribute(name: string, value: string | number | boolean): unknown
  setStatus(status: { readonly code: number; readonly message?: string }): unknown
  recordException(error: Error): void
  end(): void
}

/** The API that was given, or the installed one; undefined when nobody wants any. Throws `invalid_argument`. */
export async function loadTelemetryApi(
  name: string,
  given: boolean | TelemetryApi | undefined,
): Promise<TelemetryApi | undefined> {
  if (typeof given === 'object' && given !== null) {
    if (typeof given.trace?.getTracer === 'function' && typeof given.context?.with === 'function')
      return given
    throw notTheApi(name, 'must be true, or the module "@opentelemetry/api" itself')
  }
  if (!flag(name, given ?? false)) return undefined
  try {
    return (await import('@opentelemetry/api')) as unknown as TelemetryApi
  } catch (error) {
    throw notTheApi(
      name,
      'needs the package "@opentelemetry/api", which is not installed. Run: npm install @opentelemetry/api',
      error,
    )
  }
}

function notTheApi(name: string, what: string, cause?: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', `${name} ${what}.`, { cause, details: { option: name } })
}
