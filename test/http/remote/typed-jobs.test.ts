import assert from 'node:assert/strict'
import { defineJob, isSignalboxError, open, type RemoteBox } from 'signalbox'
import { test } from 'vitest'
import * as z from 'zod'
import { within } from '../../support/deadline.ts'
import { serving } from '../server/stage.ts'

/** Typed kinds, in process and through a server: the same story. */

const charge = defineJob('charge', {
  schema: z.object({ orderId: z.number(), at: z.iso.date().transform((text) => new Date(text)) }),
  queue: 'money',
  maxAttempts: 3,
})

/** Code for a remote box works on a store as well. */
async function story({ jobs }: Pick<RemoteBox, 'jobs'>): Promise<readonly unknown[]> {
  const answers: unknown[] = []
  const wrong = { orderId: 'seven', at: '2026-01-01' } as unknown as { orderId: number; at: string }
  await assert.rejects(jobs.add(charge, wrong), (error) => {
    assert.ok(isSignalboxError(error, 'invalid_argument'))
    answers.push(error.message, error.details)
    return true
  })
  await assert.rejects(jobs.addMany([charge.job({ orderId: 1, at: '2026-01-01' }), charge.job(wrong)]), {
    code: 'invalid_argument',
  })
  await assert.rejects(jobs.add({} as never, wrong), { code: 'invalid_argument' })
  answers.push((await jobs.list()).items.length)

  const good = await jobs.add(charge, { orderId: 7, at: '2026-01-01' })
  const [, plain] = await jobs.addMany([
    charge.job({ orderId: 8, at: '2026-01-02' }, { priority: -1 }),
    { kind: 'charge', payload: wrong, queue: 'money', priority: -2 },
  ])
  const seen: number[] = []
  const handled = charge.handle(({ payload }) => seen.push(payload.at.getTime()))
  await using worker = jobs.worker({ queues: ['money'], handlers: [handled], concurrency: 1, pollMs: 50 })
  const dead = worker.once('failed')
  await worker.start()
  answers.push((await within(15_000, 'the job that does not fit is dead', dead)).state, seen)
  const { payload, state, maxAttempts } = (await jobs.find(good.id))!
  const { error, attempt } = (await jobs.find(plain!.id))!
  answers.push(payload, state, maxAttempts, error?.code, attempt)
  return answers
}

test('a typed kind behaves the same in process and through a server', async () => {
  await using apart = await open('memory:')
  await using served = await serving()
  await using remote = await open(served.url as 'http://x')
  const [here, there] = [await story(apart), await story(remote)]
  assert.deepEqual(there, here)
  assert.deepEqual(here.slice(2), [
    0,
    'dead',
    [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2)],
    { orderId: 7, at: '2026-01-01' },
    'completed',
    3,
    'invalid_payload',
    1,
  ])
})

test('a remote worker refuses a definition whose handler must end in a transaction', async () => {
  await using served = await serving()
  await using remote = await open(served.url as 'http://x')
  const handled = charge.handle({ finish: 'transaction', run: () => undefined })
  const once = (function* () {
    yield handled
  })()
  for (const handlers of [[handled], new Set([handled]), once])
    assert.throws(() => remote.jobs.worker({ handlers }), { code: 'transaction_unsupported' })
})
