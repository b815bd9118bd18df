import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { createNotifier } from '../../../core/notifier.ts'
import { version } from '../../../core/version.ts'
import { type ClockJump, createClockWatch, createHealth, type HealthParts } from './health.ts'

/** A store whose answers a test decides, one at a time. */
function stage(parts: Partial<HealthParts> = {}) {
  const clock = createFakeClock()
  const asked: { answer(): void; fail(error: unknown): void }[] = []
  const schema = { current: 2, latest: 2, isRunnable: true, isBeforeBaseline: false }
  const store: HealthParts['store'] = {
    ping: () =>
      new Promise<void>((resolve, reject) => {
        asked.push({ answer: () => resolve(), fail: reject })
      }),
    migrator: { status: async () => schema },
  }
  const health = createHealth({ store, loops: () => [], isDraining: () => false, clock, ...parts })
  return { clock, asked, schema, health }
}

const failing = (checks: readonly { name: string; ok: boolean }[]) =>
  checks.filter(({ ok }) => !ok).map(({ name }) => name)

test('a server whose store answers with our schema is ready', async () => {
  const { asked, health } = stage({ loops: () => [{ name: 'upkeep', healthy: true }] })
  const answer = health.ready()
  asked[0]!.answer()
  assert.deepEqual(await answer, {
    status: 'ready',
    version,
    checks: [
      { name: 'store', ok: true },
      { name: 'schema', ok: true },
      { name: 'loop:upkeep', ok: true },
      { name: 'accepting', ok: true },
    ],
  })
  assert.deepEqual(health.live(), { status: 'ok', version })
})

test('the store is asked once a second, however many callers ask', async () => {
  const { asked, clock, health } = stage()
  const answers = Array.from({ length: 1_000 }, () => health.ready())
  assert.equal(asked.length, 1)
  asked[0]!.answer()
  for (const { status } of await Promise.all(answers)) assert.equal(status, 'ready')
  clock.advance(1_000)
  await health.ready()
  assert.equal(asked.length, 1, 'a verdict counts for a second')
  clock.advance(1)
  void health.ready()
  assert.equal(asked.length, 2)
})

test('a store that hangs is unready after 2 s, and is not asked again at once', async () => {
  const { asked, clock, health } = stage()
  const answer = health.ready()
  clock.advance(2_000)
  const { status, checks } = await answer
  assert.equal(status, 'unready')
  assert.deepEqual(failing(checks), ['store', 'schema'])
  assert.match(checks[0]!.detail!, /^timeout: .* 2000 ms/)
  clock.advance(2_999)
  assert.equal((await health.ready()).status, 'unready')
  assert.equal(asked.length, 1, 'one ping at a time')
})

test('a ping that never ends is replaced, so a recovered store is found within 10 s', async () => {
  const { asked, clock, health } = stage()
  const hung = health.ready()
  clock.advance(2_000)
  await hung
  clock.advance(3_000)
  const next = health.ready()
  assert.equal(asked.length, 2)
  asked[1]!.answer()
  assert.equal((await next).status, 'ready')
  assert.equal(await health.storeUp(), true)
})

test('a ping that ends late does not stop the next', async () => {
  const { asked, clock, health } = stage()
  const slow = health.ready()
  clock.advance(2_000)
  assert.equal((await slow).status, 'unready')
  clock.advance(1_001)
  asked[0]!.answer()
  await new Promise((resolve) => setImmediate(resolve))
  void health.ready()
  assert.equal(asked.length, 2)
})

test("an error of the store shows only its code and that code's meaning", async () => {
  const { asked, clock, health } = stage()
  const tell = async (error: unknown) => {
    clock.advance(1_001)
    const answer = health.ready()
    asked.at(-1)!.fail(error)
    return JSON.stringify(await answer)
  }
  const secret = 'postgres://app:hunter2@db.internal:5432/app'
  const ours = await tell(new SignalboxError('store_unavailable', `connect ECONNREFUSED ${secret}`))
  assert.match(ours, /store_unavailable: The store cannot be reached/)
  const foreign = await tell(Object.assign(new Error(secret), { code: 'ECONNREFUSED' }))
  assert.match(foreign, /"detail":"internal: /)
  for (const text of [ours, foreign]) assert.doesNotMatch(text, /hunter2|db\.internal|5432/)
  assert.equal(await health.storeUp(), false)
})

test('a store that throws instead of rejecting is unready like any other', async () => {
  const { health } = stage({
    store: {
      ping: () => {
        throw new SignalboxError('closed', 'This store was closed.')
      },
      migrator: {
        status: async () => ({ current: 1, latest: 1, isRunnable: true, isBeforeBaseline: false }),
      },
    },
  })
  assert.deepEqual(failing((await health.ready()).checks), ['store', 'schema'])
})

test('a schema that is missing, older or newer is named', async () => {
  for (const [current, reason, isBeforeBaseline = false] of [
    [0, /^schema_missing/],
    [1, /^schema_outdated.* schema 1, this version works with 2/],
    [3, /^schema_newer/],
    [13, /^schema_outdated/, true],
  ] as const) {
    const { asked, schema, health } = stage()
    Object.assign(schema, { current, isRunnable: false, isBeforeBaseline })
    const answer = health.ready()
    asked[0]!.answer()
    const { checks } = await answer
    assert.deepEqual(failing(checks), ['schema'])
    assert.match(checks[1]!.detail!, reason)
  }
})

test('a stopped loop or a draining server is unready, by name, and at once', async () => {
  let healthy = true
  let draining = false
  const { asked, health } = stage({
    loops: () => [
      { name: 'upkeep', healthy },
      { name: 'tokens', healthy: true },
    ],
    isDraining: () => draining,
  })
  const answer = health.ready()
  asked[0]!.answer()
  assert.equal((await answer).status, 'ready')
  healthy = false
  assert.deepEqual(failing((await health.ready()).checks), ['loop:upkeep'])
  healthy = true
  draining = true
  assert.deepEqual(failing((await health.ready()).checks), ['accepting'])
  assert.equal(asked.length, 1)
})

test('a change of the answer is reported once', async () => {
  let draining = false
  const told: string[] = []
  const { asked, health } = stage({
    isDraining: () => draining,
    onChange: ({ status }) => told.push(status),
  })
  const answer = health.ready()
  asked[0]!.answer()
  await answer
  draining = true
  await health.ready()
  await health.ready()
  draining = false
  await health.ready()
  assert.deepEqual(told, ['unready', 'ready'])
})

test('a jump of the store’s clock is reported, with its direction; a steady clock is not', async () => {
  let offMs = 0
  let looks = 0
  const looked = createNotifier()
  const jumps: ClockJump[] = []
  const { loop, jump } = createClockWatch({
    async now() {
      if (++looks % 3 === 0) looked.wake()
      return performance.now() + offMs
    },
    onJump: (found) => jumps.push(found),
    pollMs: 5,
  })
  try {
    await looked.wait({ timeoutMs: 5_000 })
    assert.deepEqual([jumps, jump()], [[], undefined])
    for (const byMs of [3_600_000, -3_600_000]) {
      offMs += byMs
      await looked.wait({ timeoutMs: 5_000 })
      await looked.wait({ timeoutMs: 5_000 })
      assert.ok(Math.abs(jump()!.byMs - byMs) < 2_000, `${jump()!.byMs}`)
    }
    assert.equal(jumps.length, 2)
  } finally {
    await loop.stop()
  }
})

test('a store that does not answer is reported, and checked again', async () => {
  const told: string[] = []
  const again = createNotifier()
  let looks = 0
  const { loop } = createClockWatch({
    async now() {
      if (++looks === 1) throw new Error('away')
      again.wake()
      return performance.now()
    },
    onJump: () => assert.fail('no clock was set'),
    onLoopEvent: (name, trouble) => told.push(`${name} ${trouble}`),
    pollMs: 5,
  })
  try {
    assert.equal(await again.wait({ timeoutMs: 10_000 }), 'woken')
    assert.equal(told[0], 'server.clock failed')
  } finally {
    await loop.stop()
  }
})
