/**
 * The short path of scripts/quick.ts in cases that a random walk does not reach: several steps in one call, clocks that
 * are set back, and the recovery grace.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { type LockStore, resolveLocksOptions } from '../../../src/locks/index.ts'
import type { LockTimes, Standing } from '../../../src/locks/rules/index.ts'
import { Connection, type ScriptRunner } from '../../../src/storage/redis/connection.ts'
import { Keyring, shardCount, shardKey } from '../../../src/storage/redis/keys.ts'
import { createRedisLocks } from '../../../src/storage/redis/locks.ts'
import { Recovery } from '../../../src/storage/redis/recovery.ts'
import { greetShardsScript } from '../../../src/storage/redis/scripts/shard.ts'
import { Stepper } from '../../../src/storage/redis/stepper.ts'
import { startRedis } from '../../support/services/index.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'

const times: LockTimes = resolveLocksOptions({ maxWaiters: 3 })
const success = { outcome: 'success', value: null, terminal: false } as const
const resources = ['a', 'b', '{c}%', ':queue:']

describe.runIf(hasService('redis'))('the short path of locks on Redis', () => {
  test('gives rising tokens and revisions, also when the clock of Redis is set back', async () => {
    await using stage = await openStage()
    const last = new Map<string, { token: number; revision: number }>()
    const steps = [
      1, 1, 0, 1, -1, -4_000, 10, 3_000, 2_000, 1, -6_000, 1, -3_600_000, 1, 0, 3_600_000, 10_000, 1, 1,
    ]
    for (const ms of steps) {
      stage.now += ms
      await Promise.all(
        resources.map(async (resource) => {
          const { token, revision } = await stage.take(resource)
          const before = last.get(resource) ?? { token: 0, revision: 0 }
          const where = `${resource}, the clock having gone by ${ms} ms`
          assert.ok(
            token > before.token && Number.isSafeInteger(token),
            `${token} after ${before.token}: ${where}`,
          )
          assert.ok(revision > before.revision, where)
          const given = await stage.giveBack(resource, token)
          assert.ok(given.released && given.revision > revision, where)
          last.set(resource, { token, revision: given.revision })
        }),
      )
    }
    assert.ok(stage.shortWays > 4, `${stage.shortWays} calls began with a step that was short`)
  })

  test('stores the highest token, so that tokens rise after a cleared wait queue and a clock set back', async () => {
    await using stage = await openStage()
    await stage.use(['a'])
    let last = 0
    for (let second = 0; second < 10; second++) {
      stage.now += 1_000
      const { token } = await stage.take('a')
      await stage.giveBack('a', token)
      last = token
    }
    assert.ok(stage.shortWays > 4)
    await stage.connection.send([
      'DEL',
      new Keyring('quick').locate({ operation: 'pull', resource: 'a' }).key,
    ])
    stage.now -= 8_000
    const { token } = await stage.take('a')
    assert.ok(token > last, `${token} after ${last}`)
  })

  test('repeats the first answer to each step of a call whose answer was lost', async () => {
    await using stage = await openStage()
    await stage.use(resources)
    stage.isLossy = true
    const before = stage.shortWays
    const grants = await Promise.all(resources.map((resource) => stage.take(resource)))
    const first = stage.lostReplies.at(-1)!
    assert.deepEqual(
      grants.map(({ token }) => token),
      resources.map((_, index) => first[index * 4 + 2]),
    )
    stage.now += 1
    const ends = await Promise.all(
      resources.map((resource, index) => stage.giveBack(resource, grants[index]!.token)),
    )
    const second = stage.lostReplies.at(-1)!
    assert.deepEqual(
      ends.map(({ released, revision }) => [released, revision]),
      resources.map((_, index) => [{ next: null }, second[index * 2 + 1]]),
    )
    assert.equal(stage.shortWays, before + 2)
  })

  test('sees the steps that came before in the same call, and so does the long path', async () => {
    await using stage = await openStage()
    await stage.use(resources)
    const { token } = await stage.take('a')
    stage.now += 1
    const before = stage.calls
    const [given, second, refused, other, ended] = await Promise.all([
      stage.giveBack('a', token),
      stage.ask('a', 'second'),
      stage.ask('a', 'third'),
      stage.ask('b', 'second'),
      stage.giveBack('a', token),
    ])
    assert.equal(stage.calls, before + 1)
    assert.deepEqual(given.released, { next: null })
    assert.ok(second.standing.status === 'granted' && second.standing.token > token)
    assert.ok(second.revision > given.revision)
    assert.ok(refused.standing.status === 'refused' && refused.standing.holder?.node === 'second')
    assert.equal(other.standing.status, 'granted')
    assert.equal(ended.released, undefined)
    // The written row agrees with the answer.
    for (const [resource, { revision }] of [['a', second] as const, ['b', other] as const]) {
      const queue = await stage.inspect(resource)
      assert.deepEqual([queue?.holder?.node, queue?.revision], ['second', revision])
    }
  })

  test('is not taken where Redis cannot write, and each step fails with its own error', async () => {
    await using server = await startRedis()
    await using stage = await openStage(server.url)
    await stage.use(resources)
    const { token } = await stage.take('{c}%')
    const before = await Promise.all(resources.map(stage.inspect))
    await stage.connection.send(['CONFIG', 'SET', 'maxmemory', '1'])
    const calls = stage.calls
    const [first, second, refused, third, ended] = await Promise.allSettled([
      stage.take('a'),
      stage.take('b'),
      stage.ask('{c}%', 'another'),
      stage.take(':queue:'),
      stage.giveBack('{c}%', token + 1),
    ])
    assert.equal(stage.calls, calls + 1)
    for (const taken of [first, second, third]) {
      assert.ok(taken.status === 'rejected' && taken.reason.code === 'store_unavailable')
      assert.match(taken.reason.message, /memory/)
    }
    assert.ok(refused.status === 'fulfilled' && refused.value.standing.status === 'refused')
    assert.ok(ended.status === 'fulfilled' && ended.value.released === undefined)
    await stage.connection.send(['CONFIG', 'SET', 'maxmemory', '0'])
    assert.deepEqual(await Promise.all(resources.map(stage.inspect)), before)
    await stage.giveBack('{c}%', token)
    await Promise.all(resources.map((resource) => stage.take(resource)))
  })

  test('is closed during the recovery grace', async () => {
    await using stage = await openStage()
    await stage.use(resources)
    const shards = Array.from({ length: shardCount }, (_, shard) => shardKey(shard))
    await stage.connection.run(greetShardsScript, shards, [`${stage.now * 1_000}`, 'another run', '30000'])
    const before = stage.shortWays
    for (const resource of resources) {
      const { standing } = await stage.ask(resource)
      assert.deepEqual(standing, { status: 'refused', holder: null })
    }
    assert.equal(stage.shortWays, before)
    stage.now += 30_000
    await stage.take(resources[0]!)
  })
})

/**
 * Wait queues in a separate database, with a clock that the test moves: tokens far ahead of the time would disturb it.
 */
async function openStage(server: string = serviceFacts('redis').url) {
  const url = new URL(server)
  url.pathname = '/8'
  const recovery = new Recovery()
  const connection = new Connection(url.href, recovery)
  await connection.open()
  await connection.send(['FLUSHDB'])
  const runner: ScriptRunner = {
    async run(script, keys, args, again) {
      const reply = await connection.run<readonly unknown[]>(script, keys, args, again)
      stage.calls++
      if (typeof reply[0] === 'number' && reply[0] <= 0) stage.shortWays++
      if (!stage.isLossy) return reply as never
      stage.lostReplies.push(reply)
      return connection.run(script, keys, again!, again)
    },
  }
  const stepper = new Stepper(
    runner,
    () => false,
    () => stage.now,
  )
  const locks: LockStore = createRedisLocks({ connection: runner, stepper, recovery }, 'quick')
  const who = { node: 'a', requestId: '1' }
  const keyOf = (resource: string) => ({ operation: 'pull', resource })
  const stage = {
    connection,
    // Ahead of Redis's own time, by which it removes keys, however far the clock is set back.
    now: Date.now() + 86_400_000,
    isLossy: false,
    calls: 0,
    shortWays: 0,
    lostReplies: [] as (readonly unknown[])[],

    ask: (resource: string, node: string = who.node) =>
      locks.acquire(
        keyOf(resource),
        { ...who, node, wait: false, want: 'turn', ttlMs: 30_000, deadlineMs: null, isStreamed: false },
        times,
      ),

    async take(resource: string): Promise<{ readonly token: number; readonly revision: number }> {
      const { standing, revision } = await stage.ask(resource)
      assert.equal(standing.status, 'granted')
      return { token: (standing as Standing & { readonly token: number }).token, revision }
    },

    giveBack: (resource: string, token: number) =>
      locks.release(keyOf(resource), { ...who, token }, success, times),

    inspect: (resource: string) => locks.inspect(keyOf(resource), 10),

    /** Twice: from then on they take the short path. */
    async use(resources: readonly string[]): Promise<void> {
      for (let round = 0; round < 2; round++) {
        for (const resource of resources) {
          const { token } = await stage.take(resource)
          stage.now += 1
          await stage.giveBack(resource, token)
        }
      }
      stage.now += 1
    },

    [Symbol.asyncDispose]: () => connection.close(),
  }
  return stage
}
