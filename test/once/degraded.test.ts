import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type ErrorCode, SignalboxError } from '../../src/core/errors.ts'
import { createFakeClock } from '../../src/core/fake-clock.ts'
import { createOnce, type GuardStore } from '../../src/once/index.ts'
import { MemoryGuards } from '../../src/storage/memory/guards.ts'
import { brokenStore, pass, settled } from './stage.ts'

function throwing(code: ErrorCode): () => Promise<never> {
  return async () => {
    throw new SignalboxError(code, `the store says ${code}`)
  }
}
const never = () => Promise.withResolvers<never>().promise

test('a call to a store that hangs ends at the deadline, and the policy answers', async () => {
  const clock = createFakeClock()
  const store = brokenStore({ claim: never, seen: never })
  await using once = createOnce({ store, clock }, { timeoutMs: 500, whenDown: 'closed' })
  let [claimed, seen] = [false, false]
  const claim = once.claim('a').finally(() => (claimed = true))
  const answer = once.seen({ subject: ['v'], state: 1 }).finally(() => (seen = true))
  clock.advance(499)
  await settled()
  assert.deepEqual([claimed, seen], [false, false])
  clock.advance(1)
  assert.deepEqual(await claim, { status: 'running', retryInMs: 500, degraded: true })
  assert.deepEqual(await answer, { seen: true, degraded: true })
  assert.equal(clock.timerCount, 0)
})

test('an at-most-once claim does not run while the store is down, whatever the policy', async () => {
  const store = brokenStore({ claim: throwing('store_unavailable') })
  await using once = createOnce({ store }, { whenDown: 'open', timeoutMs: 500 })
  const policies: string[] = []
  once.events.on('degraded', ({ policy }) => policies.push(policy))
  const refused = { status: 'running', retryInMs: 500, degraded: true }
  assert.deepEqual(await once.claim('a', { mode: 'at-most-once' }), refused)
  assert.deepEqual(await once.claimMany(['a', 'b'], { mode: 'at-most-once' }), [refused, refused])
  const ran = await once.run('a', () => assert.fail('the work must not run'), { mode: 'at-most-once' })
  assert.deepEqual(ran, { ran: false, ...refused })
  assert.equal((await once.claim('a')).status, 'run', 'at least once, the policy decides')
  assert.deepEqual(policies, ['closed', 'closed', 'closed', 'open'])
})

test('calls that no policy can answer end with an error at the deadline', async () => {
  const clock = createFakeClock()
  const store = brokenStore({ settle: never, renew: never, forget: never, list: never })
  await using once = createOnce({ store, clock }, { timeoutMs: 100 })
  const token = `1.${'0'.repeat(16)}`
  const calls = [
    once.done('a', token),
    once.fail('a', token),
    once.renew('a', token),
    once.forget('a'),
    once.list(),
  ].map((call) => assert.rejects(call, { code: 'timeout' }))
  await settled()
  clock.advance(100)
  await Promise.all(calls)
  assert.equal(once.stats().degraded, 0)
})

test('a claim that succeeded after its deadline is undone, because no caller has its token', async () => {
  for (const whenDown of ['open', 'closed'] as const) {
    const clock = createFakeClock(1_000)
    const inner = new MemoryGuards(() => clock.now())
    const gate = Promise.withResolvers<void>()
    const store = brokenStore(
      {
        async claim(asks) {
          await gate.promise
          return inner.claim(asks)
        },
      },
      inner,
    )
    await using once = createOnce({ store, clock }, { timeoutMs: 100, whenDown })
    const many = once.claimMany(['a', 'b'], { mode: 'at-most-once' })
    await settled()
    clock.advance(100)
    assert.ok((await many).every(({ degraded }) => degraded))
    gate.resolve()
    await settled()
    assert.deepEqual((await inner.list({ space: 'once', limit: 10 })).items, [])
  }
})

test('a claim granted by the policy can be ended and renewed without the store, flagged and counted', async () => {
  await using once = createOnce({ store: brokenStore({ claim: throwing('store_busy') }) })
  const events: string[] = []
  once.events.on('degraded', ({ call, policy }) => events.push(`${call} ${policy}`))
  const claim = await once.claim('a')
  assert.ok(claim.status === 'run' && claim.attempt === 1)
  const before = Date.now()
  const { expiresAt, ...flag } = await once.renew('a', claim.token, 60_000)
  assert.ok(expiresAt >= before + 60_000)
  assert.deepEqual(flag, { degraded: true })
  assert.deepEqual(await once.done('a', claim.token, 1), { done: true, degraded: true })
  assert.deepEqual(await once.fail('a', claim.token), { failed: true, degraded: true })
  assert.deepEqual(events, ['claim open', 'renew open', 'done open', 'fail open'])
  assert.equal(once.stats().degraded, 4)
})

test('a store refuses the token of a claim that the policy granted', async () => {
  await using once = createOnce({ store: new MemoryGuards(Date.now) })
  await once.claim('a')
  await once.done('a', 'degraded.0123456789abcdef', 1)
  assert.equal((await once.claim('a')).status, 'running')
})

test('a mistake in the call or the box is thrown, whatever the policy', async () => {
  const codes = [
    'closed',
    'schema_missing',
    'invalid_argument',
    'transaction_unsupported',
    'internal',
  ] as const
  for (const whenDown of ['open', 'closed'] as const) {
    for (const code of codes) {
      const broken = { claim: throwing(code), seen: throwing(code) }
      await using once = createOnce({ store: brokenStore(broken) }, { whenDown })
      await assert.rejects(once.claim('a'), { code })
      await assert.rejects(once.claimMany(['a']), { code })
      await assert.rejects(
        once.run('a', () => 1),
        { code },
      )
      await assert.rejects(once.seen({ subject: ['v'], state: 1 }), { code })
      assert.equal(once.stats().degraded, 0)
    }
    const bug = new TypeError('a bug')
    await using once = createOnce({ store: brokenStore({ claim: () => Promise.reject(bug) }) }, { whenDown })
    await assert.rejects(once.claim('a'), (error) => error === bug)
  }
})

test("no policy applies to a call in a caller's transaction", async () => {
  const broken: Partial<GuardStore> = { claim: throwing('store_unavailable'), seen: throwing('store_busy') }
  await using once = createOnce({ store: brokenStore(broken) })
  const tx = {}
  await assert.rejects(once.claim('a', { tx }), { code: 'store_unavailable' })
  await assert.rejects(once.claimMany(['a'], { tx }), { code: 'store_unavailable' })
  await assert.rejects(
    once.run('a', () => 1, { tx }),
    { code: 'store_unavailable' },
  )
  await assert.rejects(once.seen({ subject: ['v'], state: 1 }, { tx }), { code: 'store_busy' })
  assert.equal(once.stats().degraded, 0)
})

test('a run whose store went away returns its result with a flag, or the error, by policy', async () => {
  for (const whenDown of ['open', 'closed'] as const) {
    await using once = createOnce(
      { store: brokenStore({ settle: throwing('store_unavailable') }) },
      { whenDown },
    )
    const answer = once.run('a', () => 7)
    if (whenDown === 'open') assert.deepEqual(await answer, { ran: true, result: 7, degraded: true })
    else await assert.rejects(answer, { code: 'store_unavailable' })
    const thrown = new Error('its own')
    const failing = once.run('b', () => {
      throw thrown
    })
    await assert.rejects(failing, (error) => error === thrown)
  }
})

test('a run survives failing renewals as long as its lease lives, and aborts when it ends', async () => {
  const clock = createFakeClock(1_000)
  const inner = new MemoryGuards(() => clock.now())
  let isDown = true
  const store = brokenStore(
    { renew: (...args) => (isDown ? throwing('store_unavailable')() : inner.renew(...args)) },
    inner,
  )
  await using once = createOnce({ store, clock })
  const ended = Promise.withResolvers<string>()
  const aborts: number[] = []
  const run = once.run(
    'a',
    ({ signal }) => {
      signal.addEventListener('abort', () => aborts.push(clock.now()))
      return ended.promise
    },
    { leaseMs: 1_000 },
  )
  await settled()
  await pass(clock, 800)
  isDown = false
  await pass(clock, 2_000)
  assert.deepEqual(aborts, [])
  isDown = true
  await pass(clock, 2_000)
  assert.equal(aborts.length, 1)
  ended.resolve('late')
  await assert.rejects(run, { code: 'lease_lost' })
})
