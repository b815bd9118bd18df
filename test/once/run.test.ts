import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openStage, pass, settled } from './stage.ts'

test('a key that ran does not run again, and every caller gets its result', async () => {
  await using stage = openStage()
  let runs = 0
  const send = () => stage.once.run('mail 7', async () => ({ sent: ++runs }))
  assert.deepEqual(await send(), { ran: true, result: { sent: 1 } })
  assert.deepEqual(await send(), { ran: false, status: 'done', result: { sent: 1 } })
  assert.equal(runs, 1)
})

test('a caller that comes during a run learns that it runs, and for how long at most', async () => {
  await using stage = openStage()
  const { once } = stage
  const answer = await once.run('mail', () => once.run('mail', () => assert.fail('twice')), {
    leaseMs: 5_000,
  })
  assert.deepEqual(answer, { ran: true, result: { ran: false, status: 'running', retryInMs: 5_000 } })
})

test('an error of the run is thrown on, and the next run is another attempt', async () => {
  await using stage = openStage()
  const error = new Error('no line')
  const attempts: number[] = []
  const run = (fails: boolean) =>
    stage.once.run('mail', ({ attempt }) => {
      attempts.push(attempt)
      if (fails) throw error
    })
  await assert.rejects(run(true), (thrown) => thrown === error)
  await assert.rejects(run(true), (thrown) => thrown === error)
  assert.deepEqual(await run(false), { ran: true, result: undefined })
  assert.deepEqual(attempts, [1, 2, 3])
})

test('a run is renewed every third of its lease for as long as it takes', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const ended = Promise.withResolvers<string>()
  let isLost = false
  const run = once.run(
    'mail',
    ({ signal }) => {
      signal.addEventListener('abort', () => (isLost = true))
      return ended.promise
    },
    { leaseMs: 900 },
  )
  await settled()
  await pass(clock, 10_000)
  assert.equal(isLost, false)
  assert.equal((await once.claim('mail')).status, 'running')
  ended.resolve('ok')
  assert.deepEqual(await run, { ran: true, result: 'ok' })
  assert.equal(clock.timerCount, 0)
})

test('a run whose key an operator forgot is aborted, and ends as lost', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const run = once.run(
    'mail',
    async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      assert.equal(signal.reason.code, 'lease_lost')
      return 'too late'
    },
    { leaseMs: 900 },
  )
  await settled()
  await once.forget('mail')
  const lost = assert.rejects(run, { code: 'lease_lost' })
  await pass(clock, 300)
  await lost
  assert.equal((await once.claim('mail')).status, 'run')
})

test('a process that was frozen for longer than its lease learns that it lost the run', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const wake = Promise.withResolvers<void>()
  const run = once.run('mail', () => wake.promise, { leaseMs: 1_000 })
  await settled()
  // The time passes and no timer fires, as when a machine sleeps.
  clock.jump(1_000)
  const other = await once.claim('mail')
  assert.ok(other.status === 'run' && other.attempt === 2)
  wake.resolve()
  await assert.rejects(run, { code: 'lease_lost' })
  await once.done('mail', other.token)
})

test('the caller’s signal reaches the run, and an already aborted one prevents it', async () => {
  await using stage = openStage()
  const { once } = stage
  const stop = new AbortController()
  const reason = new Error('shutting down')
  const run = once.run(
    'mail',
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    { signal: stop.signal },
  )
  await settled()
  stop.abort(reason)
  await assert.rejects(run, (error) => error === reason)
  const late = once.run('mail', () => assert.fail('ran'), { signal: stop.signal })
  await assert.rejects(late, (error) => error === reason)
  const after = await once.claim('mail')
  assert.ok(after.status === 'run' && after.attempt === 2)
})

test('a result that cannot be stored is refused; at least once may retry, at most once never', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  await assert.rejects(
    once.run('a', () => new Date()),
    { code: 'invalid_argument' },
  )
  assert.equal((await once.claim('a')).status, 'run')
  const options = { mode: 'at-most-once', leaseMs: 1_000 } as const
  await assert.rejects(
    once.run('b', () => 'x'.repeat(300_000), options),
    { code: 'too_large' },
  )
  clock.advance(1_000)
  assert.deepEqual(await once.run('b', () => assert.fail('twice'), options), { ran: false, status: 'stuck' })
})

test('one caller at a time has a task, and the task is free again when it ends or fails', async () => {
  await using stage = openStage()
  const { once } = stage
  const inside = await once.processing('task 1', async ({ token, attempt }) => {
    assert.ok(token !== '' && attempt === 1)
    return once.processing('task 1', () => assert.fail('in two hands'), { ttlMs: '10s' })
  })
  assert.deepEqual(inside, { ran: true, result: { ran: false, status: 'running', retryInMs: 30_000 } })
  await assert.rejects(
    once.processing('task 1', () => {
      throw new Error('no line')
    }),
    /no line/,
  )
  // Its result is the caller's alone, so it need not be JSON.
  const made = await once.processing('task 1', () => new Map([[1, 2]]))
  assert.ok(made.ran && made.result.get(1) === 2)
  assert.deepEqual((await once.list({ space: 'processing' })).items, [])
})

test('a task whose caller died is free after its lease', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const hand = await once.claim('task 1', { space: 'processing', leaseMs: '30s' })
  assert.ok(hand.status === 'run')
  clock.advance(29_999)
  assert.equal((await once.processing('task 1', () => 1)).ran, false)
  clock.advance(1)
  assert.equal((await once.processing('task 1', () => 1)).ran, true)
  await assert.rejects(once.done('task 1', hand.token, null, { space: 'processing' }), { code: 'lease_lost' })
})
