/** Assertions about jobs: what they take for true, and what they say when it is not. */
import assert, { AssertionError } from 'node:assert/strict'
import { test } from 'vitest'
import * as z from 'zod'
import { defineJob } from '../jobs/index.ts'
import {
  assertAdded,
  assertCompleted,
  assertDead,
  assertNotAdded,
  openTestBox,
  type TestBox,
} from './index.ts'

const mail = defineJob('mail', {
  schema: z.object({ to: z.string(), tags: z.array(z.string()) }),
  queue: 'post',
})

async function aBox(): Promise<TestBox> {
  const box = await openTestBox()
  box.jobs.worker({
    queues: ['default', 'post'],
    handlers: {
      mail: () => undefined,
      charge: () => {
        throw new Error('card declined')
      },
    },
  })
  await box.jobs.add(mail, { to: 'ada', tags: ['a', 'b'] })
  await box.jobs.add(mail, { to: 'bob', tags: [] })
  await box.jobs.add('charge', { order: { id: 7, lines: [{ sku: 'x', count: 2 }] } }, { maxAttempts: 1 })
  await box.drain()
  return box
}

async function message(asserted: Promise<unknown>): Promise<string> {
  const error: unknown = await asserted.then(
    () => assert.fail('it held'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof AssertionError, String(error))
  return error.message
}

test('added jobs are found by kind or definition, part of the payload, queue and count', async () => {
  await using box = await aBox()
  assert.equal((await assertAdded(box, 'mail')).length, 2)
  const [job] = await assertAdded(box, mail, { to: 'ada' }, { queue: 'post', count: 1 })
  assert.deepEqual(job?.payload, { to: 'ada', tags: ['a', 'b'] })
  await assertAdded(box, mail, { tags: ['a', 'b'] })
  await assertAdded(box, 'charge', { order: { lines: [{ sku: 'x' }] } })
  await assertAdded(box, 'mail', undefined, { count: 2 })
  await assertCompleted(box, mail, { to: 'bob' }, { count: 1 })
  const [dead] = await assertDead(box, 'charge', { order: { id: 7 } })
  assert.equal(dead?.error?.message, 'card declined')
  await assertNotAdded(box, 'mail', { to: 'eve' })
  await assertNotAdded(box, 'mail', undefined, { queue: 'default' })
  await assertNotAdded(box, 'unheard-of')
})

test('a failed assertion is an AssertionError that lists the jobs there are', async () => {
  await using box = await aBox()
  const missing = await message(assertAdded(box, mail, { to: 'eve' }, { queue: 'post' }))
  assert.equal(
    missing,
    [
      'Expected one or more jobs of the kind "mail" in the queue "post" with the payload (or part of it) {"to":"eve"} to be there, but there are none.',
      'There are 3 jobs, newest first:',
      '  mail in "post", completed (attempt 1 of 5): {"to":"bob","tags":[]}',
      '  mail in "post", completed (attempt 1 of 5): {"to":"ada","tags":["a","b"]}',
      '  charge in "default", dead (attempt 1 of 1): {"order":{"id":7,"lines":[{"sku":"x","count":2}]}} · Error: card declined',
    ].join('\n'),
  )
  assert.match(
    await message(assertNotAdded(box, 'mail', { to: 'ada' })),
    /^Expected no jobs .* but there is 1\.\n/,
  )
  assert.match(
    await message(assertAdded(box, 'mail', undefined, { count: 3 })),
    /^Expected 3 jobs .* there are 2\.\n/,
  )
  assert.match(
    await message(assertCompleted(box, 'charge')),
    /^Expected one or more jobs .* to be completed, /,
  )
  assert.match(
    await message(assertDead(box, 'mail', undefined, { count: 1 })),
    /^Expected 1 job .* to be dead, /,
  )
  // A list fits item by item, a field that is not there is undefined, and null is not undefined.
  for (const part of [{ tags: ['a'] }, { tags: [], to: 'ada' }, { more: null }, { to: { length: 3 } }])
    await message(assertAdded(box, 'mail', part))
  await assertAdded(box, 'mail', { more: undefined }, { count: 2 })
})

test('the error says when there are no jobs, and lists only some of very many', async () => {
  await using box = await openTestBox()
  assert.match(await message(assertAdded(box, 'mail')), /\nThere are no jobs at all\.$/)
  await box.jobs.addMany(Array.from({ length: 1_200 }, (_, n) => ({ kind: 'note', payload: 'x'.repeat(n) })))
  await assertAdded(box, 'note', undefined, { count: 1_200 })
  const told = await message(assertAdded(box, 'mail'))
  assert.match(told, /\nThere are 1200 jobs, newest first:\n/)
  assert.match(told, /\n {2}and 1180 more$/)
  assert.ok(told.length < 10_000)
})

test('a misspelt option is an error, not a failed assertion', async () => {
  await using box = await openTestBox()
  await assert.rejects(assertAdded(box, 'mail', undefined, { times: 1 } as never), {
    code: 'invalid_argument',
  })
  await assert.rejects(assertNotAdded(box, 'mail', undefined, { count: 1 } as never), {
    code: 'invalid_argument',
  })
  await assert.rejects(assertAdded(box, 5 as never), { code: 'invalid_argument' })
})

test('a value that no payload can contain is refused, and not reported as a missing job', async () => {
  await using box = await aBox()
  for (const part of [{ at: new Date(0) }, new Map(), { order: { id: 7n } }, { order: new Set() }])
    await assert.rejects(assertNotAdded(box, 'charge', part), { code: 'invalid_argument' })
  await box.jobs.add('zero', { n: -0 })
  await assertAdded(box, 'zero', { n: -0 })
})
