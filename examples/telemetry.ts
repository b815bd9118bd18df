/**
 * Traces that go through jobs: the span that adds a job is the parent of every attempt at it, in this process or in
 * another one next week. With an OpenTelemetry SDK in your program that is all there is to write; the few lines below
 * stand in for one and print what they are told.
 *
 * Run it: npx node --conditions=source examples/telemetry.ts
 */
import assert from 'node:assert/strict'
import * as api from '@opentelemetry/api'
import { open } from 'signalbox'

const printed: { name: string; spanId: string; parentId: string | undefined }[] = []
api.trace.setGlobalTracerProvider({
  getTracer: () => ({ startSpan: printing, startActiveSpan: () => assert.fail('not used here') }),
} as api.TracerProvider)

await using box = await open('memory:', { telemetry: true })

const { promise: done, resolve } = Promise.withResolvers<void>()
const worker = box.jobs.worker({
  pollMs: 20,
  handlers: {
    charge(job) {
      if (job.attempt === 1) throw new Error('the bank is closed')
      resolve()
    },
  },
})
await box.jobs.add('charge', { orderId: 7 }, { backoff: { baseMs: 50 } })
await worker.start()
await done
await worker.stop()

const [sent, ...attempts] = printed
assert.equal(sent?.name, 'send default')
assert.deepEqual(
  attempts.map(({ name, parentId }) => [name, parentId]),
  Array.from({ length: 2 }, () => ['process default', sent?.spanId]),
)

/** What an SDK does: a span with an id, in the trace of its parent. */
function printing(
  name: string,
  { attributes }: api.SpanOptions = {},
  context = api.context.active(),
): api.Span {
  const parent = api.trace.getSpanContext(context)
  const spanId = (printed.length + 1).toString(16).padStart(16, '0')
  printed.push({ name, spanId, parentId: parent?.spanId })
  const said = { ...attributes }
  const span = {
    spanContext: () => ({ traceId: parent?.traceId ?? '1'.repeat(32), spanId, traceFlags: 1 }),
    setAttribute: (key: string, value: api.AttributeValue) => Object.assign(said, { [key]: value }),
    setStatus: ({ message }: api.SpanStatus) => Object.assign(said, { status: message }),
    recordException: () => undefined,
    end: () => console.log(name, { spanId, parentId: parent?.spanId, ...said }),
  }
  return span as unknown as api.Span
}
