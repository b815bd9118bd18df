import { decodeMeta, encodeMeta } from '../job-meta.ts'
import type { Added, ClaimedRecord, NewJob, Verdict } from '../job-store.ts'
import type { TelemetryApi, TelemetryContext, TelemetrySpan, TelemetrySpanContext } from './telemetry-api.ts'

/**
 * Spans and metrics of jobs, by the messaging conventions of OpenTelemetry. Adding is a producer's span, each attempt a
 * consumer's: a child of the one that added the job and linked to it, on whatever machine and however much later, because
 * the job itself carries the way back (`trace` in its meta, a W3C traceparent). A retry has the same parent.
 * Whatever the API throws, or what it is told of does when it is looked at, reaches neither whoever adds nor a worker.
 *
 *     your span ── send orders ──▶ job, with its traceparent ──▶ process orders (attempt 1) ── your spans
 *                                                          └──▶ process orders (attempt 2) ── your spans
 */
export interface JobsTelemetry {
  /** Adds jobs under a span; they carry its context. */
  adding<Answer extends readonly Added[]>(
    jobs: readonly NewJob[],
    add: (jobs: readonly NewJob[]) => Promise<Answer>,
  ): Promise<Answer>
  /** A span for one call of a handler with these jobs. */
  running(jobs: readonly ClaimedRecord[]): RunSpan
}

/** The span of one call of a handler. */
export interface RunSpan {
  /** Calls the handler in it, so that what it does is its child. */
  call(run: () => unknown): unknown
  /** How one of its jobs ended. The span is over when all have. */
  ended(job: ClaimedRecord, outcome: RunOutcome, error: unknown): void
}

/** What an attempt came to, as metrics and spans call it. */
export type RunOutcome = 'completed' | 'retried' | 'dead' | 'cancelled' | 'snoozed' | 'handed_back' | 'lost'

/** What a verdict that was written means. */
export function outcomeOf(job: ClaimedRecord, verdict: Verdict): RunOutcome {
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
        // What the store does is none of the jobs' children; but a tracer of its driver's may say whose call it was.
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

/** Undefined where it throws: nobody's job depends on what is told about it. */
function quietly<Value>(tell: () => Value): Value | undefined {
  try {
    return tell()
  } catch {
    return undefined
  }
}

/** Calls it once, in that context if there is a way to. */
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
  const came = called as unknown as { readonly value: Value } | { readonly error: unknown }
  if ('error' in came) throw came.error
  return came.value
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
  // What is not the same of all of them is said of none.
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

/** The queue, as conventions want it; of several the first, as names of spans must be few. */
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
  const said = (key: 'code' | 'name') =>
    quietly(() => (error as { code?: unknown; name?: unknown } | null | undefined)?.[key])
  const [code, name] = [said('code'), said('name')]
  if (typeof code === 'string') return code
  return typeof name === 'string' ? name : '_OTHER'
}

function withTrace(job: NewJob, trace: string): NewJob {
  // Whoever said whose doing it is, meant that.
  return { ...job, meta: encodeMeta({ trace, ...decodeMeta(job.meta) }) }
}

/** Undefined when nobody traces. */
function toTraceparent({ traceId, spanId, traceFlags }: TelemetrySpanContext): string | undefined {
  if (!/[^0]/.test(traceId) || !/[^0]/.test(spanId)) return undefined
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`
}

/** Whatever else stands there is nobody's span. */
function fromTraceparent(value: unknown): TelemetrySpanContext | undefined {
  if (typeof value !== 'string') return undefined
  const [, traceId, spanId, flags] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})/.exec(value) ?? []
  if (flags === undefined || !/[^0]/.test(traceId!) || !/[^0]/.test(spanId!)) return undefined
  return { traceId: traceId!, spanId: spanId!, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
