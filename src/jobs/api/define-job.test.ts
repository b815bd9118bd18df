/** Kinds with schemas: what is checked, when, and what becomes of what does not fit. */
import assert from 'node:assert/strict'
import * as v from 'valibot'
import { test } from 'vitest'
import * as z from 'zod'
import { within } from '../../../test/support/deadline.ts'
import { isSignalboxError, type SignalboxError } from '../../core/errors.ts'
import { openMemory } from '../../storage/memory/index.ts'
import type { Job } from '../job.ts'
import type { HandledJob } from '../worker/worker-options.ts'
import { createJobs } from './create-jobs.ts'
import { defineJob } from './define-job.ts'
import type { Jobs } from './jobs-api.ts'
import type { SchemaIssue, SchemaResult, StandardSchema } from './schema-check.ts'

/** A hand-written schema. */
function schemaOf<Input, Output = Input>(
  validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>,
): StandardSchema<Input, Output> {
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

const refusing = (issues: readonly SchemaIssue[]) => schemaOf<unknown>(() => ({ issues }))

interface Bench extends AsyncDisposable {
  readonly jobs: Jobs
  run(handlers: readonly HandledJob[], id: string): Promise<Job>
}

async function aBench(): Promise<Bench> {
  const memory = await openMemory({ namespace: 'test', migrate: true })
  const jobs = createJobs({ store: memory.jobs, notifier: memory.notifier })
  return {
    jobs,
    /** Runs one attempt of the next due job. */
    async run(handlers, id) {
      await using worker = jobs.worker({ handlers, pollMs: 20 })
      const over = ['completed', 'failed'] as const
      const ended = Promise.race(over.map((name) => worker.once(name)))
      await worker.start()
      await within(10_000, 'an attempt ended', ended)
      return (await jobs.find(id))!
    },
    async [Symbol.asyncDispose]() {
      await jobs[Symbol.asyncDispose]()
      await memory.close()
    },
  }
}

async function refusal(promise: Promise<unknown>): Promise<SignalboxError> {
  const error: unknown = await promise.then(
    () => assert.fail('it was not refused'),
    (reason: unknown) => reason,
  )
  assert.ok(isSignalboxError(error), String(error))
  return error
}

const order = z.object({ orderId: z.number(), at: z.iso.date().transform((text) => new Date(text)) })

for (const [library, schema] of [
  ['zod', order],
  [
    'valibot',
    v.object({
      orderId: v.number(),
      at: v.pipe(
        v.string(),
        v.isoDate(),
        v.transform((text) => new Date(text)),
      ),
    }),
  ],
  ['zod, asynchronously', order.refine(async ({ orderId }) => orderId > 0)],
] as const) {
  test(`the given payload is stored, and the handler gets the output of the schema (${library})`, async () => {
    await using bench = await aBench()
    const charge = defineJob('charge', { schema })
    const { id } = await bench.jobs.add(charge, { orderId: 7, at: '2026-01-01' })
    assert.deepEqual((await bench.jobs.find(id))?.payload, { orderId: 7, at: '2026-01-01' })

    const seen: Date[] = []
    const job = await bench.run([charge.handle(({ payload }) => seen.push(payload.at))], id)
    assert.equal(job.state, 'completed')
    assert.deepEqual(seen, [new Date('2026-01-01')])
  })

  test(`add refuses a payload that does not fit, with the position, and writes nothing (${library})`, async () => {
    await using bench = await aBench()
    const charge = defineJob('charge', { schema })
    const bad = { orderId: '7', at: 'soon' } as unknown as { orderId: number; at: string }
    const error = await refusal(bench.jobs.add(charge, bad))
    assert.equal(error.code, 'invalid_argument')
    const { issues, kind, option } = error.details as {
      issues: { path: string }[]
      kind: string
      option: string
    }
    assert.deepEqual([kind, option], ['charge', 'add.payload'])
    assert.deepEqual(issues.map(({ path }) => path).sort(), ['at', 'orderId'])
    assert.match(error.message, /payload\.orderId: /)

    const good = { orderId: 7, at: '2026-01-01' }
    const many = await refusal(bench.jobs.addMany([charge.job(good), { kind: 'plain' }, charge.job(bad)]))
    assert.equal(many.code, 'invalid_argument')
    assert.equal(many.details.option, 'addMany[2].payload')
    assert.deepEqual((await bench.jobs.list()).items, [])
  })

  test(`a payload that no longer fits at its run is dead at once, with the reason (${library})`, async () => {
    await using bench = await aBench()
    const charge = defineJob('charge', { schema })
    const { id } = await bench.jobs.add('charge', { orderId: 'seven', at: '2026-01-01' }, { maxAttempts: 5 })
    let calls = 0
    const job = await bench.run([charge.handle(() => calls++)], id)
    assert.deepEqual([job.state, job.attempt, calls], ['dead', 1, 0])
    assert.equal(job.error?.code, 'invalid_payload')
    assert.match(job.error?.message ?? '', /payload\.orderId: /)
  })
}

test('the options of a definition apply to each job without its own options', async () => {
  await using bench = await aBench()
  const mail = defineJob('mail', {
    schema: z.string(),
    queue: 'post',
    priority: 3,
    delayMs: '1h',
    maxAttempts: 2,
    timeoutMs: '10s',
  })
  const runAt = Date.now() + 60_000
  const added = await bench.jobs.addMany([
    mail.job('a'),
    mail.job('b', { runAt, priority: 9, queue: undefined }),
  ])
  const [a, b] = await Promise.all(added.map(({ id }) => bench.jobs.find(id)))
  assert.deepEqual(
    [a?.queue, a?.priority, a?.state, a?.maxAttempts, a?.timeoutMs],
    ['post', 3, 'scheduled', 2, 10_000],
  )
  assert.deepEqual([b?.queue, b?.priority, b?.runAt, b?.maxAttempts], ['post', 9, runAt, 2])
})

test('a job of a definition is still checked when it was spread into another object', async () => {
  await using bench = await aBench()
  const mail = defineJob('mail', { schema: z.object({ to: z.string() }) })
  const spread = { ...mail.job({ to: 'ada' }), payload: { to: 5 } }
  assert.equal((await refusal(bench.jobs.addMany([spread]))).code, 'invalid_argument')
  assert.equal((await bench.jobs.addMany([{ ...mail.job({ to: 'ada' }), priority: 2 }])).length, 1)
})

test('a schema gets a copy of the payload, as the store will return it', async () => {
  await using bench = await aBench()
  const given = { keep: 1, gone: undefined, list: [1] }
  const seen: unknown[] = []
  const meddling = schemaOf<typeof given>((value) => {
    seen.push(structuredClone(value))
    ;(value as typeof given).list.push(2)
    return { value: value as typeof given }
  })
  const { id } = await bench.jobs.add(defineJob('meddled', { schema: meddling }), given)
  assert.deepEqual(seen, [{ keep: 1, list: [1] }])
  assert.deepEqual(given.list, [1])
  assert.deepEqual((await bench.jobs.find(id))?.payload, { keep: 1, list: [1] })
  // No payload is kept as null, and the schema is asked about that.
  const nothing = defineJob('nothing', { schema: z.undefined() })
  assert.equal((await refusal(bench.jobs.add(nothing, undefined))).code, 'invalid_argument')
})

test('a schema that throws, rejects or returns nonsense gives an error with a code, and nothing is written', async () => {
  await using bench = await aBench()
  const cause = new TypeError('no such table')
  const broken: readonly StandardSchema[] = [
    schemaOf(() => {
      throw cause
    }),
    schemaOf(() => Promise.reject(cause)),
    schemaOf(() => undefined as never),
    schemaOf(() => ({}) as never),
    schemaOf(async () => ({ issues: 'bad' }) as never),
    // biome-ignore lint/suspicious/noThenProperty: a promise that is none is what is tried here.
    schemaOf(() => ({ then: () => assert.fail('called') }) as never),
  ]
  for (const [index, schema] of broken.entries()) {
    const definition = defineJob('broken', { schema })
    const error = await refusal(bench.jobs.add(definition, 1))
    assert.equal(error.code, 'schema_failed', `${index}`)
    if (index < 2) assert.equal(error.cause, cause)
    assert.equal((await refusal(bench.jobs.addMany([definition.job(1)]))).code, 'schema_failed')
    assert.equal((await refusal(definition.check(1))).code, 'schema_failed')
  }
  assert.deepEqual((await bench.jobs.list()).items, [])
})

test('a schema that never answers fails the add when its time is over', async () => {
  await using bench = await aBench()
  const definition = defineJob('slow', {
    schema: schemaOf(() => new Promise(() => undefined)),
    schemaTimeoutMs: 20,
  })
  const error = await within(10_000, 'add is refused', refusal(bench.jobs.add(definition, 1)))
  assert.equal(error.code, 'schema_failed')
  assert.equal(error.details.timeoutMs, 20)
  assert.deepEqual((await bench.jobs.list()).items, [])
})

test('a schema that fails at the run costs one attempt, because it may be repaired', async () => {
  await using bench = await aBench()
  const thrower = schemaOf(() => {
    throw new Error('the lookup is down')
  })
  const { id } = await bench.jobs.add('looked-up', 1)
  const job = await bench.run([defineJob('looked-up', { schema: thrower }).handle(() => 1)], id)
  assert.deepEqual([job.state, job.attempt, job.error?.code], ['scheduled', 1, 'schema_failed'])
})

test('a handler that passes on another kind’s invalid_payload fails like any other', async () => {
  await using bench = await aBench()
  const any = defineJob('any', { schema: schemaOf<unknown>((value) => ({ value })) })
  const never = defineJob('never', { schema: refusing([{ message: 'No' }]) })
  const { id } = await bench.jobs.add(any, 1)
  const job = await bench.run([any.handle(() => never.check(1))], id)
  assert.deepEqual([job.state, job.error?.code], ['scheduled', 'invalid_payload'])
})

test('the handler does not start when the attempt’s time ran out during the schema check', async () => {
  await using bench = await aBench()
  const asked = Promise.withResolvers<SchemaResult<unknown>>()
  const definition = defineJob('late', { schema: schemaOf<unknown>(() => asked.promise) })
  const { id } = await bench.jobs.add('late', 1, { timeoutMs: 20 })
  let calls = 0
  await using worker = bench.jobs.worker({ handlers: [definition.handle(() => calls++)], pollMs: 20 })
  const failed = worker.once('failed')
  const late = worker.once('late')
  await worker.start()
  await within(10_000, 'it timed out', failed)
  asked.resolve({ value: 1 })
  await within(10_000, 'the schema’s answer came too late', late)
  assert.equal(calls, 0)
  assert.equal((await bench.jobs.find(id))?.error?.code, 'timeout')
})

test('issues are reported with their positions, in a limited text', async () => {
  await using bench = await aBench()
  const path = ['items', 3, { key: 'a b' }, Symbol('s')]
  const issues = [
    { message: `${'x'.repeat(5_000)}`, path },
    ...Array.from({ length: 99 }, () => ({ message: 'No' })),
  ]
  const error = await refusal(bench.jobs.add(defineJob('many', { schema: refusing(issues) }), 1))
  const told = error.details.issues as { path: string; message: string }[]
  assert.equal(told[0]?.path, 'items[3]["a b"]["Symbol(s)"]')
  assert.equal(told.length, 20)
  assert.equal(error.details.issueCount, 100)
  assert.ok(error.message.length < 2_000)
  // Issues are there, so it does not fit, whatever they say.
  const mute = await refusal(bench.jobs.add(defineJob('mute', { schema: refusing([]) }), 1))
  assert.equal(mute.code, 'invalid_argument')
  const odd = await refusal(bench.jobs.add(defineJob('odd', { schema: refusing([null as never]) }), 1))
  assert.equal(odd.code, 'invalid_argument')
})

test('an invalid definition or handler is refused where it is written', async () => {
  await using bench = await aBench()
  const schema = z.string()
  const wrong: readonly (() => unknown)[] = [
    () => defineJob('', { schema }),
    () => defineJob('a', {} as never),
    () => defineJob('a', { schema: { type: 'string' } as never }),
    () => defineJob('a', { schema: { '~standard': { version: 2, validate: () => 1 } } as never }),
    () => defineJob('a', { schema, priority: 'high' as never }),
    () => defineJob('a', { schema, queue: 'signalbox.mine' }),
    () => defineJob('a', { schema, runAt: 5 } as never),
    () => defineJob('a', { schema, schemaTimeoutMs: 0 }),
    () => defineJob('a', { schema }).handle(null as never),
    () => bench.jobs.worker({ handlers: [] }),
    () => bench.jobs.worker({ handlers: [defineJob('a', { schema })] as never }),
    () => bench.jobs.worker({ handlers: [null] as never }),
    () => bench.jobs.worker({ handlers: new Map([['a', () => 1]]) as never }),
    () => {
      const twice = defineJob('a', { schema }).handle(() => 1)
      return bench.jobs.worker({ handlers: [twice, twice] })
    },
  ]
  for (const make of wrong) {
    assert.throws(make, (error) => isSignalboxError(error, 'invalid_argument'), String(make))
  }
  for (const kind of [{}, null, 5, { kind: 'a' }]) {
    const error = await refusal(bench.jobs.add(kind as string, 'x'))
    assert.equal(error.code, 'invalid_argument')
  }
})

test('a list of handlers accepts plain ones too, and a schema that is a function', async () => {
  await using bench = await aBench()
  const callable = Object.assign(
    () => undefined,
    schemaOf<string>((value) => ({ value: value as string })),
  )
  const first = defineJob('first', { schema: callable })
  const { id } = await bench.jobs.add('plain', 5)
  const handlers = [first.handle(() => 1), { kind: 'plain', handler: () => 'done' }]
  assert.equal((await bench.run(handlers, id)).result, 'done')
})

test('a handled definition by its kind is refused with what to write instead', async () => {
  await using bench = await aBench()
  const charge = defineJob('charge', { schema: z.number() })
  const handlers = { charge: charge.handle(() => 1) } as never
  assert.throws(() => bench.jobs.worker({ handlers }), {
    code: 'invalid_argument',
    message: /worker\.handlers\.charge is a handled definition.*Write handlers: \[charge\.handle\(…\)\]/,
  })
})
