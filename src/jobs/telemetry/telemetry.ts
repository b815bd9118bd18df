import { SignalboxError } from '../../core/errors.ts'
import { flag } from '../../core/options.ts'
import { decodeMeta, encodeMeta, parseMeta } from '../job-facts.ts'
import type { Added, ClaimedRecord, NewJob, Verdict } from '../job-store.ts'

/**
 * Spans and metrics of jobs, by the messaging conventions of OpenTelemetry. An add is a producer's span. Each attempt
 * is a consumer's span: a child of the add's span and linked to it, also on another machine, because the job carries
 * the traceparent in its meta text. A retry has the same parent. An error of the API reaches neither callers nor
 * workers.
 *
 *     your span ── send orders ──▶ job, with its traceparent ──▶ process orders (attempt 1) ── your spans
 *                                                          └──▶ process orders (attempt 2) ── your spans
 */
export interface JobsTelemetry {
  /** Adds jobs under a span. The jobs carry its context. */
  adding<Answer extends readonly Added[]>(
    jobs: readonly NewJob[],
    add: (jobs: readonly NewJob[]) => Promise<Answer>,
  ): Promise<Answer>
  /** A span for one call of a handler with these jobs. */
  running(jobs: readonly ClaimedRecord[]): RunSpan
}

/** The span of one call of a handler. */
export interface RunSpan {
  /** Calls the handler in the span, so that its spans are children. */
  call(run: () => unknown): unknown
  /** Reports the end of one job. The span ends when all jobs have. */
  ended(job: ClaimedRecord, outcome: RunOutcome, error: unknown): void
}

/** The outcome of an attempt, as metrics and spans name it. */
export type RunOutcome = 'completed' | 'retried' | 'dead' | 'cancelled' | 'snoozed' | 'handed_back' | 'lost'

/** The outcome of a written verdict. */
export function outcomeOf(
  job: Pick<ClaimedRecord, 'snoozeCount' | 'handBackCount'>,
  verdict: Verdict,
): RunOutcome {
  if (verdict.snoozeCount > job.snoozeCount) return 'snoozed'
  if (verdict.handBackCount > job.handBackCount) return 'handed_back'
  const { state } = verdict
  return state === 'scheduled' || state === 'ready' ? 'retried' : state
}

const producer = 3
const consumer = 4
const failed = 2
const failures: ReadonlySet<RunOutcome> = new Set(['retried', 'dead', 'lost'])

export function createTelemetry(api: TelemetryApi): JobsTelemetry {
  const tracer = api.trace.getTracer('signalbox')
  const meter = api.metrics.getMeter('signalbox')
  const sent = meter.createCounter('messaging.client.sent.messages', {
    description: 'Jobs that were added.',
    unit: '{message}',
  })
  const consumed = meter.createCounter('messaging.client.consumed.messages', {
    description: 'Attempts at jobs that ended, by outcome.',
    unit: '{message}',
  })
  const duration = meter.createHistogram('messaging.process.duration', {
    description: 'How long handlers ran.',
    unit: 's',
  })

  return {
    async adding(jobs, add) {
      const span = quietly(() => {
        const attributes = aboutAll(jobs, 'send', 'add')
        return tracer.startSpan(`send ${nameOf(jobs)}`, { kind: producer, attributes }, api.context.active())
      })
      if (span === undefined) return add(jobs)
      const trace = quietly(() => toTraceparent(span.spanContext()))
      const traced = trace === undefined ? jobs : jobs.map((job) => withTrace(job, trace))
      try {
        // Inside the context, so that a tracer of the database driver can attach its spans.
        const added = await callIn(
          api,
          () => api.trace.setSpan(api.context.active(), span),
          () => add(traced),
        )
        quietly(() => {
          for (const [index, job] of jobs.entries()) {
            if (!added[index]!.duplicate) sent.add(1, about(job, 'send', 'add'))
          }
          if (added.some(({ duplicate }) => duplicate)) span.setAttribute('signalbox.job.duplicate', true)
        })
        return added
      } catch (error) {
        quietly(() => fail(span, error))
        throw error
      } finally {
        quietly(() => span.end())
      }
    },

    running(jobs) {
      const begun = quietly(() => {
        const links = jobs.flatMap((job) => {
          const context = fromTraceparent(decodeMeta(job.meta).trace)
          return context === undefined ? [] : [{ context }]
        })
        const [only] = jobs.length === 1 ? links : []
        const parent: TelemetryContext =
          only === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, only.context)
        const options = { kind: consumer, attributes: aboutRun(jobs), links }
        return { parent, span: tracer.startSpan(`process ${nameOf(jobs)}`, options, parent) }
      })
      const begunAt = performance.now()
      let open = jobs.length
      return {
        call(run) {
          if (begun === undefined) return run()
          return callIn(api, () => api.trace.setSpan(begun.parent, begun.span), run)
        },
        ended(job, outcome, error) {
          if (open === 0) return
          open--
          quietly(() => {
            const isFailure = failures.has(outcome)
            const attributes = {
              ...about(job, 'process', 'run'),
              'signalbox.job.outcome': outcome,
              ...(isFailure && { 'error.type': errorType(error, outcome) }),
            }
            consumed.add(1, attributes)
            duration.record((performance.now() - begunAt) / 1_000, attributes)
            if (jobs.length === 1) begun?.span.setAttribute('signalbox.job.outcome', outcome)
            if (isFailure && begun !== undefined) fail(begun.span, error, outcome)
          })
          if (open === 0) quietly(() => begun?.span.end())
        },
      }
    },
  }
}

/** Returns undefined if `report` throws: an error of telemetry must not affect a job. */
function quietly<Value>(report: () => Value): Value | undefined {
  try {
    return report()
  } catch {
    return undefined
  }
}

/** Calls `run` once, in that context if possible. */
function callIn<Value>(api: TelemetryApi, context: () => TelemetryContext, run: () => Value): Value {
  let called: { readonly value: Value } | { readonly error: unknown } | undefined
  const call = () => {
    try {
      called = { value: run() }
    } catch (error) {
      called = { error }
    }
  }
  quietly(() => api.context.with(context(), call))
  if (called === undefined) call()
  const result = called as unknown as { readonly value: Value } | { readonly error: unknown }
  if ('error' in result) throw result.error
  return result.value
}

type Attributes = Record<string, string | number | boolean>

function about({ queue, kind }: Pick<NewJob, 'queue' | 'kind'>, type: string, name: string): Attributes {
  return {
    'messaging.system': 'signalbox',
    'messaging.destination.name': queue,
    'messaging.operation.type': type,
    'messaging.operation.name': name,
    'signalbox.job.kind': kind,
  }
}

function aboutAll(
  jobs: readonly Pick<NewJob, 'id' | 'queue' | 'kind'>[],
  type: string,
  name: string,
): Attributes {
  const [first] = jobs
  const attributes = about(first!, type, name)
  if (jobs.length === 1) return { ...attributes, 'messaging.message.id': first!.id }
  // Keep only the attributes that all jobs share.
  if (jobs.some(({ queue }) => queue !== first!.queue)) delete attributes['messaging.destination.name']
  if (jobs.some(({ kind }) => kind !== first!.kind)) delete attributes['signalbox.job.kind']
  return { ...attributes, 'messaging.batch.message_count': jobs.length }
}

function aboutRun(jobs: readonly ClaimedRecord[]): Attributes {
  const [first] = jobs
  const attributes = aboutAll(jobs, 'process', 'run')
  if (first!.workerId !== null) attributes['messaging.client.id'] = first!.workerId
  if (jobs.length === 1) attributes['signalbox.job.attempt'] = first!.attempt
  return attributes
}

/** The name of the span: the queue of the first job. Few span names must exist, so it never lists several queues. */
function nameOf(jobs: readonly Pick<NewJob, 'queue'>[]): string {
  return jobs[0]!.queue
}

function fail(span: TelemetrySpan, error: unknown, outcome?: RunOutcome): void {
  const message = quietly(() => (error as { message?: unknown } | null | undefined)?.message)
  const text = typeof message === 'string' ? message : quietly(() => String(error ?? outcome))
  span.setAttribute('error.type', errorType(error, outcome))
  span.setStatus({ code: failed, ...(text !== undefined && { message: text }) })
  if (error instanceof Error) span.recordException(error)
}

function errorType(error: unknown, outcome: RunOutcome | undefined): string {
  if (outcome === 'lost') return 'lease_lost'
  const read = (key: 'code' | 'name') =>
    quietly(() => (error as { code?: unknown; name?: unknown } | null | undefined)?.[key])
  const [code, name] = [read('code'), read('name')]
  if (typeof code === 'string') return code
  return typeof name === 'string' ? name : '_OTHER'
}

function withTrace(job: NewJob, trace: string): NewJob {
  // A trace that the caller gave wins.
  return { ...job, meta: encodeMeta({ trace, ...parseMeta(job.meta) }) }
}

/** Returns undefined without an active trace. */
function toTraceparent({ traceId, spanId, traceFlags }: TelemetrySpanContext): string | undefined {
  if (!/[^0]/.test(traceId) || !/[^0]/.test(spanId)) return undefined
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`
}

/** Returns undefined for any other text. */
function fromTraceparent(value: unknown): TelemetrySpanContext | undefined {
  if (typeof value !== 'string') return undefined
  const [, traceId, spanId, flags] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})/.exec(value) ?? []
  if (flags === undefined || !/[^0]/.test(traceId!) || !/[^0]/.test(spanId!)) return undefined
  return { traceId: traceId!, spanId: spanId!, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}

/**
 * The part of `@opentelemetry/api` that this module uses. It is declared here, so that users without telemetry need
 * neither the package nor its types.
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
    // biome-ignore lint/suspicious/noExplicitAny: the API's own Span has more members than this module uses.
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

// biome-ignore lint/suspicious/noExplicitAny: this module only passes it from one call of the API to another.
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

/** The given API, or the installed one; undefined if telemetry is off. Throws `invalid_argument`. */
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
