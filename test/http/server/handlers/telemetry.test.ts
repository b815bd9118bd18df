/** The trace of a job, over HTTP: from the program that adds it to the worker that runs it, in any language. */
import assert from 'node:assert/strict'
import { open } from 'signalbox'
import type { TelemetryApi } from 'signalbox/jobs'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

const trace = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`

interface Report {
  readonly name: string
  readonly spanId: string
  readonly parentId: string | undefined
  readonly links: readonly string[]
}

/** The API by its shape: contexts are ids of spans. */
function recording(reported: Report[]): TelemetryApi {
  const measure = () => ({ add: () => undefined, record: () => undefined })
  return {
    ROOT_CONTEXT: undefined,
    context: { active: () => undefined, with: (_, call) => call() },
    metrics: { getMeter: () => ({ createCounter: measure, createHistogram: measure }) },
    trace: {
      setSpan: (_, span) => span.spanContext().spanId,
      setSpanContext: (_, { spanId }) => spanId,
      getTracer: () => ({
        startSpan(name, { links = [] }, parentId) {
          const spanId = (reported.length + 1).toString(16).padStart(16, '0')
          reported.push({ name, spanId, parentId, links: links.map(({ context }) => context.spanId) })
          return {
            spanContext: () => ({ traceId: 'c'.repeat(32), spanId, traceFlags: 1 }),
            setAttribute: () => undefined,
            setStatus: () => undefined,
            recordException: () => undefined,
            end: () => undefined,
          }
        },
      }),
    },
  }
}

test('a claim returns the traceparent that was added with the job, and other text is refused', async () => {
  await using stage = await serving()
  const added = await stage.ask('POST', '/v1/jobs', { body: { kind: 'work', trace, tags: ['a'] } })
  assert.equal(added.status, 201)
  const { body } = await stage.ask('POST', '/v1/jobs/claim', { body: {} })
  assert.deepEqual([body.items[0].trace, body.items[0].tags], [trace, ['a']])
  for (const wrong of ['', 'unknown', `${trace}-x`, 5]) {
    const reply = await stage.ask('POST', '/v1/jobs', { body: { kind: 'work', trace: wrong } })
    assert.deepEqual([reply.status, reply.body.code], [400, 'invalid_argument'])
    await assert.rejects(stage.box.jobs.add('work', null, { trace: wrong as never }), {
      code: 'invalid_argument',
    })
  }
})

test('a worker on a remote box continues the span that added the job', async () => {
  await using stage = await serving()
  const reported: Report[] = []
  const telemetry = recording(reported)
  await using remote = await open(stage.url as `http://${string}`, { telemetry })
  await remote.jobs.add('work')
  await remote.jobs.add('work', null, { trace })
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = remote.jobs.worker({ concurrency: 1, pollMs: 50, handlers: { work: () => undefined } })
  worker.on('completed', () => worker.counts.completed === 2 && resolve())
  await worker.start()
  await within(10_000, 'both were done', done)
  await worker.stop()
  const [first, second] = reported
  assert.deepEqual([first?.name, second?.name], ['send default', 'send default'])
  assert.deepEqual(
    reported.slice(2).map(({ name, parentId, links }) => [name, parentId, links]),
    [
      ['process default', first?.spanId, [first?.spanId]],
      // An explicit trace context is kept.
      ['process default', 'b'.repeat(16), ['b'.repeat(16)]],
    ],
  )
})
