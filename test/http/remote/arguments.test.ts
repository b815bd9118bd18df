import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createAesSealer, isSignalboxError, open, type RemoteUrl, type Sealer } from 'signalbox'
import { test } from 'vitest'
import { serving } from '../server/stage.ts'

/** What is no argument is refused by a box on a server as by one on a store: with a typed error, and nothing done. */

type Verbs = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>

/** What a call ends with, of whichever kind it is. */
async function endOf(call: () => unknown): Promise<unknown> {
  try {
    const answer = call() as Partial<AsyncGenerator> | undefined
    return typeof answer?.next === 'function' ? await answer.next() : await answer
  } catch (error) {
    return isSignalboxError(error) ? error.code : error
  }
}

test('invalid options are refused before anything is sent', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as RemoteUrl)
  const { id } = await box.jobs.add('kept')
  const [job] = await box.jobs.claim()
  const modules = {
    jobs: box.jobs as unknown as Verbs,
    locks: box.locks as unknown as Verbs,
    once: box.once as unknown as Verbs,
    monitor: box.monitor as unknown as Verbs,
    dispatch: box.dispatch as unknown as Verbs,
    schedules: box.jobs.schedules as unknown as Verbs,
  }
  const calls: readonly (readonly [keyof typeof modules, string, ...(readonly unknown[])])[] = [
    ['jobs', 'list'],
    ['jobs', 'logs', id],
    ['jobs', 'note', job],
    ['jobs', 'add', 'kind', 'payload'],
    ['locks', 'list'],
    ['locks', 'watch'],
    ['once', 'claim', 'key'],
    ['once', 'claimMany'],
    ['once', 'claimMany', ['key']],
    ['once', 'fail', 'key', 'token'],
    ['once', 'list'],
    ['monitor', 'report'],
    ['monitor', 'silence'],
    ['monitor', 'explain'],
    ['monitor', 'decisions'],
    ['monitor', 'subjects'],
    ['dispatch', 'submit'],
    ['dispatch', 'node'],
    ['dispatch', 'cordon', 'node'],
    ['dispatch', 'uncordon', 'node'],
    ['schedules', 'list'],
  ]
  for (const [module, verb, ...args] of calls)
    for (const none of [null, 5])
      assert.equal(
        await endOf(() => modules[module][verb]!(...args, none)),
        'invalid_argument',
        `${module}.${verb}(…, ${none})`,
      )
  for (const options of [{ logs: null }, { logs: [null] }, { logs: 'x' }, { progress: null }])
    assert.equal(
      await endOf(() => modules.jobs.note!(job, options)),
      'invalid_argument',
      JSON.stringify(options),
    )
  assert.equal((await box.jobs.list()).items.length, 1)
})

test('an option of another method is refused, also where a list of jobs is expected', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as RemoteUrl)
  for (const options of [{ kind: 'other' }, { payload: 5 }, null])
    await assert.rejects(box.jobs.add('kind', 'payload', options as never), { code: 'invalid_argument' })
  assert.deepEqual((await box.jobs.list()).items, [])
})

test('of concurrent adds only the invalid one is refused', async () => {
  await using stage = await serving()
  // What is sealed is longer: only the server finds it too long.
  const sealer = createAesSealer({ keys: { a: randomBytes(32) }, current: 'a' })
  await using box = await open(stage.url as RemoteUrl, { jobs: { sealer } })
  const adds = await Promise.allSettled(
    Array.from({ length: 6 }, (_, nr) => box.jobs.add('kind', nr === 3 ? 'x'.repeat(250_000) : nr)),
  )
  assert.deepEqual(
    adds.map((add) => (add.status === 'rejected' ? (add.reason as { code: string }).code : 'added')),
    ['added', 'added', 'added', 'too_large', 'added', 'added'],
  )
  assert.equal((await box.jobs.list()).items.length, 5)
})

test('a sealer without a key for one of several concurrent adds refuses only that one', async () => {
  await using stage = await serving()
  const aes = createAesSealer({ keys: { a: randomBytes(32) }, current: 'a' })
  const sealer: Sealer = {
    open: aes.open,
    seal(plain, context) {
      if (context.kind === 'keyless') throw new Error('no key for this kind')
      return aes.seal(plain, context)
    },
  }
  await using box = await open(stage.url as RemoteUrl, { jobs: { sealer } })
  const adds = await Promise.allSettled(['mail', 'keyless', 'mail'].map((kind) => box.jobs.add(kind, 1)))
  assert.deepEqual(
    adds.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
})
