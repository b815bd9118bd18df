import assert from 'node:assert/strict'
import { test } from 'vitest'
import { open } from '../../src/index.ts'
import type { ClaimOptions } from '../../src/once/index.ts'
import { openStage } from './stage.ts'

test('one call to the store answers many keys in their order', async () => {
  await using stage = openStage()
  const { once, store } = stage
  const [done, failed] = await once.claimMany(['done', 'failed'])
  assert.ok(done?.status === 'run' && failed?.status === 'run')
  await once.done('done', done.token, [1])
  await once.fail('failed', failed.token)
  let calls = 0
  const claim = store.claim.bind(store)
  store.claim = (...args) => {
    calls++
    return claim(...args)
  }
  const answers = await once.claimMany(['new', 'done', 'failed', 'new'])
  assert.equal(calls, 1)
  assert.deepEqual(
    answers.map((answer) => [answer.status, 'attempt' in answer ? answer.attempt : undefined]),
    [
      ['run', 1],
      ['done', undefined],
      ['run', 2],
      ['running', undefined],
    ],
  )
  assert.deepEqual(answers[1], { status: 'done', result: [1] })
  assert.deepEqual(await once.claimMany([]), [])
})

test('more than 1,000 keys at once, and one fingerprint for many keys, are refused', async () => {
  await using stage = openStage()
  const { once } = stage
  const keys = Array.from({ length: 1_001 }, (_, n) => `k${n}`)
  await assert.rejects(once.claimMany(keys), { code: 'too_large' })
  assert.equal((await once.claimMany(keys.slice(1))).length, 1_000)
  await assert.rejects(once.claimMany(['a'], { fingerprint: 'f' } as ClaimOptions), {
    code: 'invalid_argument',
  })
  await assert.rejects(once.claimMany('a' as never), { code: 'invalid_argument' })
  await assert.rejects(once.claimMany(['a', '']), { code: 'invalid_argument' })
})

test('a key used for something else is a mismatch, and no key of that call stays claimed', async () => {
  await using stage = openStage()
  const { once } = stage
  await once.claim('pay 1', { fingerprint: 'sha256:a' })
  const wrong = { code: 'fingerprint_mismatch', status: 422 }
  await assert.rejects(once.claim('pay 1', { fingerprint: 'sha256:b' }), wrong)
  await assert.rejects(once.claim('pay 1'), wrong)
  await assert.rejects(
    once.run('pay 1', () => assert.fail('ran')),
    wrong,
  )
  assert.equal((await once.claim('pay 1', { fingerprint: 'sha256:a' })).status, 'running')
  const failed = await once.claim('failed')
  assert.ok(failed.status === 'run')
  await once.fail('failed', failed.token)
  await assert.rejects(once.claimMany(['new', 'failed', 'pay 1']), wrong)
  const [fresh, again] = await once.claimMany(['new', 'failed'])
  assert.ok(fresh?.status === 'run' && fresh.attempt === 1)
  assert.ok(again?.status === 'run' && again.attempt === 3, 'attempts stay counted')
})

test('the five counters have their names, and count answers by keys and status', async () => {
  await using stage = openStage()
  const { once } = stage
  await once.processing('task', () => once.processing('task', () => 1))
  const [, claim] = await once.claimMany(['a', 'b', 'a'])
  assert.ok(claim?.status === 'run')
  await once.fail('b', claim.token)
  await once.run('b', () => 1)
  await once.run('b', () => 1)
  for (let n = 0; n < 3; n++) await once.seen({ subject: ['v'], state: 1 })
  await assert.rejects(once.claim('a', { fingerprint: 'f' }))
  assert.deepEqual(once.stats(), {
    lock_acquired_count: 1,
    lock_rejected_count: 1,
    duplicate_events: 2,
    unique_events: 2,
    notification_dedup: 2,
    degraded: 0,
    answers: {
      processing: { run: 1, running: 1 },
      once: { run: 3, running: 1, done: 1, mismatch: 1 },
      seen: { unseen: 1, seen: 2 },
    },
  })
})

test('every answer emits an event', async () => {
  await using stage = openStage()
  const { once } = stage
  const heard: unknown[] = []
  once.events.on('claimed', (event) => heard.push(event))
  once.events.on('seen', (event) => heard.push(event))
  await once.claim('a')
  await once.claim('a')
  await once.seen({ subject: ['v'], state: 1 })
  assert.deepEqual(heard, [
    { space: 'once', key: 'a', status: 'run' },
    { space: 'once', key: 'a', status: 'running' },
    { subject: ['v'], seen: false },
  ])
})

test('guards are listed in pages, without tokens or results', async () => {
  await using stage = openStage()
  const { once } = stage
  await once.claimMany(['a 1', 'a 2', 'a 3', 'b'])
  await once.run('a 2 done', () => 'secret')
  const first = await once.list({ search: 'a', limit: 3 })
  assert.deepEqual(
    first.items.map(({ key, status }) => [key, status]),
    [
      ['a 1', 'running'],
      ['a 2', 'running'],
      ['a 2 done', 'done'],
    ],
  )
  assert.ok(!JSON.stringify(first.items).includes('secret'))
  const { items, cursor } = await once.list({ search: 'a', limit: 3, cursor: first.cursor })
  assert.deepEqual([items.map(({ key }) => key), cursor], [['a 3'], null])
  await assert.rejects(once.list({ cursor: 'a/b' }), { code: 'invalid_argument' })
  await assert.rejects(once.list({ limit: 501 }), { code: 'invalid_argument' })
})

test('an invalid key, token or span is refused', async () => {
  await using stage = openStage()
  const { once } = stage
  const refused = { code: 'invalid_argument' }
  for (const key of ['', 'a\n', 'x'.repeat(192), '\ud800', 7, null, undefined]) {
    await assert.rejects(once.claim(key as string), refused)
    await assert.rejects(once.done(key as string, '1.0'), refused)
    await assert.rejects(once.forget(key as string), refused)
  }
  for (const token of ['', 'x'.repeat(65), 7, undefined]) {
    await assert.rejects(once.done('a', token as string), refused)
    await assert.rejects(once.fail('a', token as string), refused)
    await assert.rejects(once.renew('a', token as string), refused)
  }
  const wrong = [
    { leaseMs: 99 },
    { leaseMs: '2d' },
    { keepMs: -1 },
    { mode: 'twice' },
    { fingerprint: '' },
    { lease: 1 },
    { space: 'monitor.task' },
  ]
  for (const options of wrong) await assert.rejects(once.claim('a', options as ClaimOptions), refused)
  for (const options of [{ keepMs: 1 }, { mode: 'at-most-once' }, { fingerprint: 'f' }])
    await assert.rejects(once.claim('a', { space: 'processing', ...options } as ClaimOptions), refused)
  await assert.rejects(once.run('a', 'no function' as never), refused)
  assert.equal((await once.claim('x'.repeat(191))).status, 'run')
  assert.deepEqual((await once.list()).items.length, 1)
})

test('a box has guards, and refuses invalid options for them', async () => {
  await using box = await open('memory:', { once: { whenDown: 'closed', timeoutMs: '1s' } })
  assert.deepEqual(await box.once.run('a', () => 1), { ran: true, result: 1 })
  for (const once of [{ whenDown: 'maybe' }, { timeoutMs: 1 }, { retries: 1 }])
    await assert.rejects(open('memory:', { once: once as never }), { code: 'invalid_argument' })
  await box.close()
  await assert.rejects(box.once.claim('a'), { code: 'closed' })
})
