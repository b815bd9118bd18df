/** Typed kinds and `signalbox/testing`, as a program writes them; `tsc` is the test. */
import { type Box, defineJob, type RemoteBox } from 'signalbox'
import type { HandledJob, HandlerJob, JobDefinition, JobToAdd } from 'signalbox/jobs'
import type * as room from 'signalbox/testing'
import { assertAdded, assertDead, type DrainedError, openTestBox, type TestBox } from 'signalbox/testing'
import * as v from 'valibot'
import * as z from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Expect<T extends true> = T

const charge = defineJob('charge', {
  schema: z.object({ orderId: z.number(), at: z.string().transform((text) => new Date(text)) }),
  queue: 'money',
  delayMs: '5s',
})
const mail = defineJob('mail', {
  schema: v.object({ to: v.string(), copies: v.optional(v.pipe(v.string(), v.transform(Number)), '1') }),
})

declare function is<Expected>(): <Actual>(
  value: Actual & (Equal<Actual, Expected> extends true ? unknown : never),
) => void

export async function defined(): Promise<void> {
  type Charge = JobDefinition<'charge', { orderId: number; at: string }, { orderId: number; at: Date }>
  type Mail = JobDefinition<
    'mail',
    { to: string; copies?: string | undefined },
    { to: string; copies: number }
  >
  is<Charge>()(charge)
  is<Mail>()(mail)
  is<JobToAdd>()(charge.job({ orderId: 7, at: '' }))
  is<{ orderId: number; at: Date }>()(await charge.check(1))
  // @ts-expect-error that the comparison can fail
  is<Mail>()(charge)
}

export async function program(box: Box, remote: RemoteBox): Promise<void> {
  await box.jobs.add(charge, { orderId: 7, at: '2026-01-01' }, { priority: 1 })
  await box.jobs.addMany([
    charge.job({ orderId: 7, at: '2026-01-01' }),
    { ...mail.job({ to: 'Ada' }), delayMs: 5 },
    { kind: 'plain', payload: 1 },
  ])
  await remote.jobs.add(mail, { to: 'Ada', copies: '2' })
  const handlers = [
    charge.handle((job) => job.transaction(async (tx) => tx.sql`SELECT ${job.payload.at.getTime()}`)),
    mail.handle({
      finish: 'any',
      run: (job, { signal }) => {
        const checked: [HandlerJob<{ to: string; copies: number }>, AbortSignal] = [job, signal]
        return checked.length + job.payload.copies
      },
    }),
    { kind: 'plain', handler: () => undefined },
  ] satisfies readonly HandledJob[]
  box.jobs.worker({ handlers })
  box.jobs.worker({ handlers: new Set(handlers), queues: ['default', 'money'] })
  remote.jobs.worker({ handlers: [mail.handle((job) => job.payload.to)] })
  // The names of an array's methods are kinds like any other.
  box.jobs.worker({ handlers: { sort: (job) => job.id, map: async (job) => job.payload } })
  const [claimed] = await box.jobs.claim()
  if (claimed) (await charge.check(claimed.payload)).at.getTime()
}

export async function mistakes(box: Box, remote: RemoteBox): Promise<void> {
  // @ts-expect-error a payload of another kind
  await box.jobs.add(charge, { to: 'Ada' })
  // @ts-expect-error the schema takes text there, and makes the date itself
  await box.jobs.add(charge, { orderId: 7, at: new Date() })
  // @ts-expect-error no payload at all
  await box.jobs.add(charge)
  // @ts-expect-error a misspelt option
  await box.jobs.add(charge, { orderId: 7, at: '' }, { dealyMs: 5 })
  // @ts-expect-error a payload of another kind, also for many
  charge.job({ to: 'Ada' })
  // @ts-expect-error and on a remote box
  await remote.jobs.add(mail, { to: 5 })
  // @ts-expect-error a job is added at a moment that its own add knows
  defineJob('late', { schema: z.string(), runAt: new Date() })
  // @ts-expect-error a schema is needed
  defineJob('none', {})
  // @ts-expect-error a JSON schema is not a Standard Schema
  defineJob('json', { schema: { type: 'object' } })
  // @ts-expect-error what the schema makes is a date
  charge.handle((job) => job.payload.at.length)
  // @ts-expect-error a batch is run by runBatch
  box.jobs.worker({ handlers: { mail: { batch: { size: 5 }, run: () => undefined } } })
  // @ts-expect-error of a definition, too
  charge.handle({ batch: { size: 5 }, run: () => undefined })
  // @ts-expect-error a definition is not a handler yet
  box.jobs.worker({ handlers: [charge] })
}

export type Testing = [
  Expect<
    Equal<
      keyof typeof room,
      | 'createFakeClock'
      | 'createTestClock'
      | 'openTestBox'
      | 'assertAdded'
      | 'assertNotAdded'
      | 'assertCompleted'
      | 'assertDead'
    >
  >,
  Expect<Equal<Exclude<keyof TestBox, keyof Box>, 'clock' | 'mode' | 'drain' | 'database'>>,
  Expect<
    Equal<
      Awaited<ReturnType<TestBox['drain']>>,
      {
        readonly completed: number
        readonly failed: number
        readonly dead: number
        readonly errors: readonly DrainedError[]
      }
    >
  >,
]

export async function tests(): Promise<void> {
  await using box = await openTestBox({ mode: 'manual', at: new Date(0) })
  box.clock.advance('5m')
  await box.drain({ queue: 'money', limit: 5, withScheduled: true, timeoutMs: '1s' })
  const [job] = await assertAdded(box, charge, { orderId: 7 }, { queue: 'money', count: 1 })
  await assertDead(box, 'anything', { at: { any: 'depth' } })
  job?.error
  // @ts-expect-error no part of such a payload
  await assertAdded(box, charge, { orderId: '7' })
  // @ts-expect-error there is no such mode
  await openTestBox({ mode: 'sometimes' })
}
