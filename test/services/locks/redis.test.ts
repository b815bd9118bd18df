/** Faults that only Redis can have: forgotten scripts, broken connections, full memory, notifiers. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { describe, test } from 'vitest'
import { createLocks, type LockKey, type LockStore, resolveLocksOptions } from '../../../src/locks/index.ts'
import type { AcquireRequest, LockTimes, Standing } from '../../../src/locks/rules/index.ts'
import type { GuardAsk } from '../../../src/once/guard-store.ts'
import { openRedis, type RedisBackend } from '../../../src/storage/redis/index.ts'
import { GuardKeys } from '../../../src/storage/redis/keys.ts'
import { within } from '../../support/deadline.ts'
import { startRedis } from '../../support/services/index.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'

const times: LockTimes = resolveLocksOptions({ maxWaiters: 100 })
const key = { operation: 'pull', resource: 'app:1.2' }

describe.runIf(hasService('redis'))('on Redis', () => {
  test('scripts that the server has forgotten are sent again unnoticed', async () => {
    await using redis = await open()
    const token = await granted(redis.locks, 'A')
    await command(['SCRIPT', 'FLUSH'])
    assert.equal((await ask(redis.locks, 'B')).status, 'queued')
    await command(['SCRIPT', 'FLUSH'])
    const [{ released }, listed] = await Promise.all([
      end(redis.locks, 'A', token),
      command(['SCRIPT', 'FLUSH']).then(() => redis.locks.list({ limit: 10 })),
    ])
    assert.deepEqual([released, listed.length <= 1], [{ next: null }, true])
    await command(['SCRIPT', 'FLUSH'])
    assert.deepEqual(await redis.locks.sweep(10, times), [])
    assert.deepEqual(await ask(redis.locks, 'B'), { status: 'ended', kind: 'completed', value: null })
  })

  test('names that look like patterns, keys, commands or Lua are plain names', async () => {
    await using redis = await open()
    const names = [
      '{}',
      '{sb:0}',
      '*',
      'a\r\nFLUSHALL\r\n',
      "'..redis.call('FLUSHALL')..'",
      ']]',
      'x'.repeat(1_024),
    ]
    const long = '汉'.repeat(1_024)
    for (const resource of [...names, long]) {
      const own = { operation: 'pull', resource }
      const token = await granted(redis.locks, 'A', own)
      assert.equal((await ask(redis.locks, resource.slice(0, 191), { wait: true }, own)).status, 'queued')
      assert.equal((await redis.locks.inspect(own, 1))!.waiters[0]!.node, resource.slice(0, 191))
      const { released } = await end(redis.locks, 'A', token, own, 'failure')
      assert.deepEqual(released?.next, { node: resource.slice(0, 191), requestId: resource.slice(0, 191) })
    }
    assert.equal((await redis.locks.list({ limit: 100 })).length, names.length + 1)
  })

  test('an ended wait queue disappears from Redis after its time, and its token still rises', async () => {
    await using redis = await open()
    const short = { ...times, keepMs: 50 }
    const first = await granted(redis.locks, 'A')
    await redis.locks.release(key, { ...named('A'), token: first }, success, short)
    await until('it is forgotten', async () => (await redis.locks.inspect(key, 1)) === undefined)
    assert.ok((await granted(redis.locks, 'B')) > first)
  })

  test('claims that share a call keep their own options, and a failed claim does not affect the others', async () => {
    const namespace = `guards-${randomBytes(6).toString('hex')}`
    await using redis = await openRedis(serviceFacts('redis').url, { namespace })
    await command(['LPUSH', new GuardKeys(namespace).guard('once', 'broken'), 'not ours'])
    const terms = { space: 'once', keepMs: 1_000, mode: 'at-least-once', fingerprint: null } as const
    const claim = async (key: string, leaseMs: number, more: Partial<GuardAsk> = {}) => {
      const [standing] = await redis.guards.claim([{ ...terms, key, leaseMs, ...more }])
      return standing!
    }
    const failed = assert.rejects(() => claim('broken', 60_000), { code: 'store_unavailable' })
    const [a, b, c, d, forgotten, ...again] = await Promise.all([
      claim('a', 5_000),
      claim('b', 5_000),
      claim('c', 60_000, { fingerprint: 'of c' }),
      claim('d', 60_000, { mode: 'at-most-once' }),
      redis.guards.forget('once', 'b'),
      claim('a', 60_000),
      claim('b', 60_000),
      claim('c', 60_000),
      claim('d', 60_000),
    ])
    await failed
    assert.equal(forgotten, true)
    assert.deepEqual(
      again.map(({ status }) => status),
      ['running', 'run', 'mismatch', 'running'],
    )
    const tokens = [a, b, c, d, again[1]!].map((standing) => 'token' in standing && standing.token)
    assert.equal(new Set(tokens.map((token) => String(token).split('.')[0])).size, 5)
    const [first] = again
    assert.ok(first?.status === 'running' && first.leaseEndsInMs > 4_000 && first.leaseEndsInMs <= 5_000)
  })

  test('two backends on one Redis hand over to each other by the notifier, long before a poll', async () => {
    const namespace = aNamespace()
    await using one = await open(namespace)
    await using two = await open(namespace)
    await using here = createLocks({ store: one.locks, notifier: one.notifier, remoteWakeUps: true })
    await using there = createLocks({ store: two.locks, notifier: two.notifier, remoteWakeUps: true })
    const spans: number[] = []
    for (let turn = 0; turn < 3; turn++) {
      const [mine, yours] = turn % 2 === 0 ? [here, there] : [there, here]
      const held = await mine.hold('deploy', 'eu-1', { node: 'A' })
      const next = yours.hold('deploy', 'eu-1', { node: 'B' })
      await until('B waits', async () => (await mine.inspect(deploy)).waiterCount === 1)
      // Its stream keeps its position within a moment of asking for it.
      await sleep(100)
      const released = performance.now()
      await held.release()
      await (await next).release()
      spans.push(performance.now() - released)
    }
    assert.ok(
      Math.min(...spans) < 1_500,
      `handed over within ${spans.map(Math.round)} ms; polling takes 3,750`,
    )
  })

  test('a notifier reconnects after its connection broke, and repeats missed wake-ups', async () => {
    const namespace = aNamespace()
    await using queue = await openProxy()
    await using one = await open(namespace)
    await using two = await openRedis(queue.url, { namespace })
    let wakeUps = 0
    const unlisten = two.notifier.listen(['topic', 'other'], () => void wakeUps++)
    await until('it listens', async () => wakeUps > 0)
    await sleep(50)
    wakeUps = 0
    one.notifier.wake('topic')
    await until('it hears', async () => wakeUps > 0)
    wakeUps = 0
    queue.cut()
    await until('everybody is called when it is back', async () => wakeUps > 0)
    await sleep(50)
    wakeUps = 0
    one.notifier.wake('other')
    await until('it hears again', async () => wakeUps > 0)
    unlisten()
    wakeUps = 0
    one.notifier.wake('topic')
    two.notifier.wake('topic')
    await sleep(50)
    assert.equal(wakeUps, 0)
  })

  test('a call whose answer is lost with the connection gets the same answer on repetition', async () => {
    await using queue = await openProxy()
    await using redis = await openRedis(queue.url, { namespace: aNamespace() })
    const token = await granted(redis.locks, 'A')
    await ask(redis.locks, 'B', { want: 'turn' })
    await ask(redis.locks, 'C')
    queue.loseNextAnswer()
    const { released, notified } = await end(redis.locks, 'A', token)
    assert.deepEqual([released?.next?.node, notified.everyone], ['B', true], 'as if nothing had happened')
    assert.equal(queue.lost, 1)
    assert.equal(
      (await end(redis.locks, 'A', token)).released,
      undefined,
      'a second release is a second release',
    )

    queue.loseNextAnswer()
    assert.deepEqual(await ask(redis.locks, 'C'), { status: 'ended', kind: 'completed', value: null })
    const b = await granted(redis.locks, 'B')
    queue.loseNextAnswer()
    assert.equal(await granted(redis.locks, 'B'), b)
    await ask(redis.locks, 'D')
    queue.loseNextAnswer()
    assert.equal((await redis.locks.leave(key, named('D'), times)).left, true)
    queue.loseNextAnswer()
    assert.equal((await redis.locks.evict(key, named('B'), times)).evicted, true)
    assert.equal(queue.lost, 5)
  })

  // These two wait for the same five seconds.
  test.concurrent('a silent Redis ends every call with an error code by its deadline, and is used again later', async () => {
    await using queue = await openProxy()
    await using redis = await openRedis(queue.url, { namespace: aNamespace() })
    const token = await granted(redis.locks, 'A')
    queue.freeze()
    const began = performance.now()
    const calls = [
      ask(redis.locks, 'B'),
      end(redis.locks, 'A', token),
      redis.locks.inspect(key, 1),
      redis.locks.list({ limit: 1 }),
      redis.locks.sweep(1, times),
      redis.ping(),
    ]
    const outcomes = await within(8_000, 'ending all calls', Promise.allSettled(calls))
    for (const outcome of outcomes) {
      assert.equal(outcome.status, 'rejected')
      assert.equal((outcome as PromiseRejectedResult).reason.code, 'store_unavailable')
    }
    assert.ok(performance.now() - began >= 4_900)
    queue.thaw()
    // It is unknown whether the release took effect; the wait queue is in one of the two states.
    const status = (await ask(redis.locks, 'C', { wait: false })).status
    assert.ok(status === 'granted' || status === 'refused', status)
  })

  test.concurrent('a Redis that refuses connections ends calls with the reason, without its address', async () => {
    await using queue = await openProxy()
    await using redis = await openRedis(queue.url, { namespace: aNamespace() })
    await queue.stop()
    const error: Error = await redis.ping().then(
      () => assert.fail('it answered'),
      (error) => error,
    )
    assert.equal((error as { code?: unknown }).code, 'store_unavailable')
    assert.match(String((error.cause as { code?: unknown })?.code), /ECONNREFUSED|ECONNRESET/)
    assert.ok(!error.message.includes(new URL(queue.url).port))
  })

  test('a closed backend refuses calls and releases its listeners', async () => {
    const redis = await open()
    redis.notifier.listen(['topic'], () => assert.fail('heard after closing'))
    await redis.close()
    await redis.close()
    await assert.rejects(redis.locks.inspect(key, 1), { code: 'closed' })
    await assert.rejects(redis.ping(), { code: 'closed' })
    redis.notifier.wake('topic')
  })

  test('an invalid address is refused without being shown', async () => {
    for (const url of [
      'redis:',
      'http://user:hunter2@host',
      'redis://:hunter2@host/zero',
      'redis://h:hunter2',
    ])
      await assert.rejects(openRedis(url, { namespace: 'default' }), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'invalid_argument')
        assert.ok(!error.message.includes('hunter2'))
        return true
      })
    await assert.rejects(openRedis('redis://127.0.0.1:1', { namespace: 'default' }), {
      code: 'store_unavailable',
    })
  })
})

describe.runIf(hasService('redis') && serviceFacts('redis').from !== 'environment')(
  'on a Redis of our own',
  () => {
    test('a Redis that evicts keys is refused, and weak durability gives a warning', async () => {
      await using server = await startRedis()
      const opened = await openRedis(server.url, { namespace: 'default' })
      assert.match(opened.warnings.join(), /append-only/)
      await opened.close()
      await command(['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru'], server.url)
      await assert.rejects(openRedis(server.url, { namespace: 'default' }), {
        code: 'engine_unsupported',
        message: /noeviction/,
      })
      await command(['CONFIG', 'SET', 'maxmemory-policy', 'noeviction'], server.url)
      await command(['CONFIG', 'SET', 'appendonly', 'yes'], server.url)
      await using redis = await openRedis(server.url, { namespace: 'default' })
      assert.deepEqual(redis.warnings, [])
    })

    test('a Redis without free memory refuses with an error code, and no step is half done', async () => {
      await using server = await startRedis()
      await using redis = await openRedis(server.url, { namespace: 'default' })
      const token = await granted(redis.locks, 'A')
      await ask(redis.locks, 'B', { want: 'turn' })
      const before = await redis.locks.inspect(key, 10)
      await command(['CONFIG', 'SET', 'maxmemory', '1'], server.url)
      await assert.rejects(ask(redis.locks, 'C'), { code: 'store_unavailable', message: /memory/ })
      assert.deepEqual(await redis.locks.inspect(key, 10), before)
      await command(['CONFIG', 'SET', 'maxmemory', '0'], server.url)
      assert.equal((await end(redis.locks, 'A', token)).released?.next?.node, 'B')
    })

    test('a wrong or missing password is refused, and the error says so', async () => {
      await using server = await startRedis()
      await command(['CONFIG', 'SET', 'requirepass', 'hunter2'], server.url)
      await assert.rejects(openRedis(server.url, { namespace: 'default' }), { code: 'store_unavailable' })
      const url = new URL(server.url)
      url.password = 'wrong'
      await assert.rejects(openRedis(url.href, { namespace: 'default' }), {
        code: 'store_unavailable',
        message: /password/,
      })
      url.password = 'hunter2'
      await using redis = await openRedis(url.href, { namespace: 'default' })
      await granted(redis.locks, 'A')
    })
  },
)

const success = { outcome: 'success', value: null, terminal: false } as const
const deploy: LockKey = { operation: 'deploy', resource: 'eu-1' }

function aNamespace(): string {
  return `test-${randomBytes(6).toString('hex')}`
}

function open(namespace = aNamespace()): Promise<RedisBackend> {
  return openRedis(serviceFacts('redis').url, { namespace })
}

function named(node: string) {
  return { node, requestId: node }
}

async function ask(
  store: LockStore,
  node: string,
  options: Partial<AcquireRequest> = {},
  of: LockKey = key,
): Promise<Standing> {
  const whole = {
    wait: true,
    want: 'result',
    ttlMs: 30_000,
    deadlineMs: null,
    isStreamed: false,
    ...options,
  } as const
  return (await store.acquire(of, { ...named(node), ...whole }, times)).standing
}

async function granted(store: LockStore, node: string, of: LockKey = key): Promise<number> {
  const standing = await ask(store, node, {}, of)
  assert.equal(standing.status, 'granted')
  return (standing as { token: number }).token
}

function end(
  store: LockStore,
  node: string,
  token: number,
  of: LockKey = key,
  outcome: 'success' | 'failure' = 'success',
) {
  return store.release(of, { ...named(node), token }, { ...success, outcome }, times)
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 10_000; !(await isSo()); await sleep(10))
    assert.ok(Date.now() < deadline, `${what} within 10 s`)
}

async function command(words: readonly string[], url = serviceFacts('redis').url): Promise<unknown> {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await client.sendCommand([...words])
  } finally {
    client.destroy()
  }
}

/** A wait queue to Redis that can be cut and silenced. */
interface Proxy extends AsyncDisposable {
  readonly url: string
  readonly lost: number
  /** The next request reaches Redis; its answer is dropped, and the connection with it. */
  loseNextAnswer(): void
  /** No byte passes any more, and neither side learns of it. */
  freeze(): void
  thaw(): void
  /** Ends the open connections. */
  cut(): void
  /** There is no connection, and none is accepted. */
  stop(): Promise<void>
}

async function openProxy(): Promise<Proxy> {
  const { hostname, port } = new URL(serviceFacts('redis').url)
  const sockets = new Set<Socket>()
  let isFrozen = false
  let losing = false
  let lost = 0
  const server: Server = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => sockets.delete(socket))
    }
    near.on('data', (chunk) => {
      if (!isFrozen) far.write(chunk)
    })
    far.on('data', (chunk) => {
      if (isFrozen) return
      if (!losing) return void near.write(chunk)
      losing = false
      lost++
      near.destroy()
      far.destroy()
    })
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const stop = async () => {
    cut()
    await new Promise((resolve) => server.close(resolve))
  }
  const { port: own } = server.address() as { port: number }
  return {
    url: `redis://127.0.0.1:${own}`,
    get lost() {
      return lost
    },
    loseNextAnswer() {
      losing = true
    },
    freeze() {
      isFrozen = true
    },
    thaw() {
      isFrozen = false
    },
    cut,
    stop,
    async [Symbol.asyncDispose]() {
      if (server.listening) await stop()
    },
  }
}
