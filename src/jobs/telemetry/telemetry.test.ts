/** Spans and metrics of jobs, told to the API of OpenTelemetry; the tracer behind it is the test's own. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import * as api from '@opentelemetry/api'
import { afterEach, test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import { open } from '../../index.ts'

interface Told {
  readonly name: string
  readonly kind: api.SpanKind
  readonly attributes: api.Attributes
  readonly links: readonly string[]
  readonly spanId: string
  readonly traceId: string
  readonly parentId: string | undefined
  status: api.SpanStatus
  exceptions: number
  isOver: boolean
}

const told: Told[] = []
const measured: { readonly name: string; readonly value: number; readonly attributes: api.Attributes }[] = []
const endedTwice: string[] = []
let nextId = 1

afterEach(() => assert.deepEqual(endedTwice, []))

class TestSpan implements api.Span {
  readonly told: Told
  readonly #context: api.SpanContext

  constructor(name: string, { kind = 0, attributes = {}, links = [] }: api.SpanOptions, parent: api.Context) {
    const above = api.trace.getSpanContext(parent)
    const spanId = (nextId++).toString(16).padStart(16, '0')
    const traceId = above?.traceId ?? (nextId++).toString(16).padStart(32, '0')
    this.#context = { traceId, spanId, traceFlags: 1 }
    this.told = {
      ...{ name, kind, attributes: { ...attributes }, links: links.map(({ context }) => context.spanId) },
      ...{ spanId, traceId, parentId: above?.spanId, status: { code: 0 }, exceptions: 0, isOver: false },
    }
    told.push(this.told)
  }
  spanContext(): api.SpanContext {
    return this.#context
  }
  setAttribute(key: string, value: api.AttributeValue): this {
    this.told.attributes[key] = value
    return this
  }
  setAttributes(attributes: api.Attributes): this {
    Object.assign(this.told.attributes, attributes)
    return this
  }
  setStatus(status: api.SpanStatus): this {
    this.told.status = status
    return this
  }
  recordException(): void {
    this.told.exceptions++
  }
  end(): void {
    if (this.told.isOver) endedTwice.push(this.told.name)
    this.told.isOver = true
  }
  addEvent(): this {
    return this
  }
  addLink(): this {
    return this
  }
  addLinks(): this {
    return this
  }
  updateName(): this {
    return this
  }
  isRecording(): boolean {
    return true
  }
}

const stack = new AsyncLocalStorage<api.Context>()
const manager: api.ContextManager = {
  active: () => stack.getStore() ?? api.ROOT_CONTEXT,
  with: (context, call, thisArg, ...args) => stack.run(context, () => call.call(thisArg as never, ...args)),
  bind: (_, target) => target,
  enable: () => manager,
  disable: () => manager,
}
const instrument = (name: string) => {
  const tell = (value: number, attributes: api.Attributes = {}) =>
    void measured.push({ name, value, attributes })
  return { add: tell, record: tell }
}
api.context.setGlobalContextManager(manager)
api.trace.setGlobalTracerProvider({
  getTracer: () => ({
    startSpan: (name: string, options: api.SpanOptions = {}, context = api.context.active()) =>
      new TestSpan(name, options, context),
    startActiveSpan: () => assert.fail('not used'),
  }),
} as api.TracerProvider)
api.metrics.setGlobalMeterProvider({
  getMeter: () => ({ createCounter: instrument, createHistogram: instrument }) as unknown as api.Meter,
})

function spans(name: string): readonly Told[] {
  return told.filter((span) => span.name === name)
}

test('an attempt, a retry and jobs added by handlers are children of the span that added the job', async () => {
  told.length = measured.length = 0
  await using box = await open('memory:', { telemetry: api })
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    pollMs: 20,
    queues: ['orders', 'mails'],
    workerId: 'w1',
    handlers: {
      async order(job) {
        await new Promise((later) => setImmediate(later))
        if (job.attempt === 1) throw Object.assign(new Error('again'), { code: 'E_AGAIN' })
        await box.jobs.add('mail', null, { queue: 'mails' })
      },
      mail: () => undefined,
    },
  })
  worker.on('completed', ({ job }) => job.kind === 'mail' && resolve())
  const outer = new TestSpan('request', {}, api.ROOT_CONTEXT)
  const { id } = await api.context.with(api.trace.setSpan(api.ROOT_CONTEXT, outer), () =>
    box.jobs.add('order', { n: 1 }, { queue: 'orders', tags: ['kept'], backoff: { baseMs: 0 } }),
  )
  await worker.start()
  await within(10_000, 'all were done', done)
  await worker.stop()

  const [sent] = spans('send orders')
  assert.deepEqual([sent?.kind, sent?.parentId], [api.SpanKind.PRODUCER, outer.told.spanId])
  assert.deepEqual(sent?.attributes, {
    'messaging.system': 'signalbox',
    'messaging.destination.name': 'orders',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'add',
    'messaging.message.id': id,
    'signalbox.job.kind': 'order',
  })
  const [first, second] = spans('process orders')
  for (const attempt of [first, second]) {
    assert.deepEqual(
      [attempt?.kind, attempt?.parentId, attempt?.traceId, attempt?.links],
      [api.SpanKind.CONSUMER, sent?.spanId, sent?.traceId, [sent?.spanId]],
    )
  }
  assert.deepEqual(
    [first?.attributes['signalbox.job.outcome'], first?.status.code, first?.exceptions],
    ['retried', api.SpanStatusCode.ERROR, 1],
  )
  assert.deepEqual(
    [
      second?.attributes['signalbox.job.outcome'],
      second?.status.code,
      second?.attributes['signalbox.job.attempt'],
    ],
    ['completed', api.SpanStatusCode.UNSET, 2],
  )
  const [mailed] = spans('send mails')
  assert.equal(mailed?.parentId, second?.spanId, 'what a handler adds is its child')
  assert.equal(spans('process mails')[0]?.parentId, mailed?.spanId)
  assert.ok(told.filter((span) => span !== outer.told).every(({ isOver }) => isOver))
  // The way back is kept beside the tags, and neither shows the other.
  assert.deepEqual((await box.jobs.find(id))?.tags, ['kept'])

  const consumed = measured.filter(({ name }) => name === 'messaging.client.consumed.messages')
  assert.deepEqual(
    consumed.map(({ attributes }) => [
      attributes['messaging.destination.name'],
      attributes['signalbox.job.outcome'],
      attributes['error.type'],
    ]),
    [
      ['orders', 'retried', 'E_AGAIN'],
      ['orders', 'completed', undefined],
      ['mails', 'completed', undefined],
    ],
  )
  assert.equal(measured.filter(({ name }) => name === 'messaging.client.sent.messages').length, 2)
  const times = measured.filter(({ name }) => name === 'messaging.process.duration')
  assert.ok(times.length === 3 && times.every(({ value }) => value >= 0 && value < 10))
})

test('jobs added together share a span; a batch has one span linked to all, which ends with the last', async () => {
  told.length = measured.length = 0
  // The installed package, found by name: its globals are those above.
  await using box = await open('memory:', { telemetry: true })
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    handlers: { send: { batch: { size: 3 }, runBatch: () => [1, new Error('no'), 3] } },
  })
  let ended = 0
  const count = () => ++ended === 3 && resolve()
  worker.on('completed', count)
  worker.on('failed', count)
  await box.jobs.addMany([1, 2, 3].map((payload) => ({ kind: 'send', payload, maxAttempts: 1 })))
  await worker.start()
  await within(10_000, 'all ended', done)
  await worker.stop()
  const [sent] = spans('send default')
  assert.deepEqual([sent?.attributes['messaging.batch.message_count'], sent?.isOver], [3, true])
  const [run, ...more] = spans('process default')
  assert.deepEqual(
    [more.length, run?.parentId, run?.links, run?.attributes['messaging.batch.message_count'], run?.isOver],
    [0, undefined, Array.from({ length: 3 }, () => sent?.spanId), 3, true],
  )
  assert.equal(run?.status.code, api.SpanStatusCode.ERROR)
  const outcomes = measured
    .filter(({ name }) => name === 'messaging.client.consumed.messages')
    .map(({ attributes }) => attributes['signalbox.job.outcome'])
  assert.deepEqual(outcomes.toSorted(), ['completed', 'completed', 'dead'])
})

test('a failed add is recorded as failed, and without the option nothing is recorded', async () => {
  told.length = measured.length = 0
  await using quiet = await open('memory:')
  await quiet.jobs.add('work')
  assert.deepEqual([told.length, measured.length], [0, 0])
  const box = await open('memory:', { telemetry: api })
  await box.close()
  await assert.rejects(box.jobs.add('work'), { code: 'closed' })
  const [sent] = spans('send default')
  assert.deepEqual(
    [sent?.attributes['error.type'], sent?.status.code, sent?.isOver],
    ['closed', api.SpanStatusCode.ERROR, true],
  )
  assert.deepEqual(measured, [])
  for (const wrong of [{}, 'yes', { trace: {} }]) {
    await assert.rejects(open('memory:', { telemetry: wrong as never }), { code: 'invalid_argument' })
  }
})

/** The places where a telemetry API may fail. */
const breaks = ['startSpan', 'with', 'afterWith', 'spanContext', 'setAttribute', 'end', 'metrics'] as const

function brokenApi(where: (typeof breaks)[number]): typeof api {
  const fail = () => {
    throw new Error(`${where} broke`)
  }
  const broken = (at: string, call: (...args: never[]) => unknown) => (at === where ? fail : call)
  const span = {
    spanContext: broken('spanContext', () => ({
      traceId: '1'.repeat(32),
      spanId: '2'.repeat(16),
      traceFlags: 1,
    })),
    setAttribute: broken('setAttribute', () => undefined),
    setStatus: () => undefined,
    recordException: () => undefined,
    end: broken('end', () => undefined),
  }
  const instrument = () => ({
    add: broken('metrics', () => undefined),
    record: broken('metrics', () => undefined),
  })
  return {
    ROOT_CONTEXT: {},
    trace: {
      getTracer: () => ({ startSpan: broken('startSpan', () => span) }),
      setSpan: () => ({}),
      setSpanContext: () => ({}),
    },
    context: {
      active: () => ({}),
      with(_: unknown, call: () => unknown) {
        if (where === 'with') fail()
        const answer = call()
        return where === 'afterWith' ? fail() : answer
      },
    },
    metrics: { getMeter: () => ({ createCounter: instrument, createHistogram: instrument }) },
  } as unknown as typeof api
}

test.each(breaks)(
  'an API that breaks at %s stops neither an add nor a worker, and no handler runs twice',
  async (where) => {
    await using box = await open('memory:', { telemetry: brokenApi(where) })
    const runs: string[] = []
    const { promise: done, resolve } = Promise.withResolvers<void>()
    const worker = box.jobs.worker({
      handlers: {
        work(job) {
          runs.push(String(job.payload))
          if (job.payload === 'bad') throw new Error('no')
          return 'fine'
        },
      },
    })
    let ended = 0
    const count = () => ++ended === 2 && resolve()
    worker.on('completed', count)
    worker.on('failed', count)
    const added = await box.jobs.addMany(
      ['good', 'bad'].map((payload) => ({ kind: 'work', payload, maxAttempts: 1 })),
    )
    await worker.start()
    await within(10_000, 'both ended', done)
    await worker.stop()
    assert.deepEqual(runs.toSorted(), ['bad', 'good'])
    const [good, bad] = await Promise.all(added.map(({ id }) => box.jobs.find(id)))
    assert.deepEqual([good?.state, good?.result, bad?.state], ['completed', 'fine', 'dead'])
  },
)

test('an unreadable value is thrown like any other, with tracing as without', async () => {
  told.length = measured.length = 0
  const strange = Object.create(null, {
    message: {
      get() {
        throw new Error('not for you')
      },
    },
  }) as unknown
  await using box = await open('memory:', { telemetry: api })
  const { promise: failed, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    handlers: {
      work() {
        throw strange
      },
    },
  })
  worker.on('failed', () => resolve())
  const { id } = await box.jobs.add('work', null, { maxAttempts: 1 })
  await worker.start()
  await within(10_000, 'it failed', failed)
  await worker.stop()
  assert.equal((await box.jobs.find(id))?.state, 'dead')
  const [run] = spans('process default')
  assert.deepEqual(
    [run?.attributes['error.type'], run?.status.code, run?.isOver],
    ['_OTHER', api.SpanStatusCode.ERROR, true],
  )
})
