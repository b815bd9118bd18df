/**
 * A Redis that restarts may have lost its last writes. For the longest lease it grants nothing new, so that holders it
 * no longer knows can renew. Later grants have tokens above all earlier ones.
 */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { describe, test } from 'vitest'
import { type LockKey, type LockStore, resolveLocksOptions } from '../../../src/locks/index.ts'
import type { AcquireRequest, LockTimes, Standing } from '../../../src/locks/rules/index.ts'
import { openRedis } from '../../../src/storage/redis/index.ts'
import { binaryFolders, findBinary } from '../../support/services/binary.ts'
import { createFolder } from '../../support/services/folder.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'
import { startProgram } from '../../support/services/program.ts'
import { startOnFreePort } from '../../support/services/ready.ts'
import { createRevivable } from '../../support/services/revivable.ts'

const ttlMs = 5_000
const times: LockTimes = resolveLocksOptions({ maxWaiters: 100 })
const key = { operation: 'pull', resource: 'app:1.2' }
const other = { operation: 'pull', resource: 'app:2.0' }

const isOurs = hasService('redis') && serviceFacts('redis').from !== 'environment'

describe.runIf(isOurs)('a Redis that restarts', () => {
  test('keeps its writes, and grants nothing new for the longest lease', async () => {
    await using server = await startOwn(['--appendonly', 'yes', '--appendfsync', 'always'])
    await using redis = await openRedis(server.url, { namespace: 'default' })
    const token = await granted(redis.locks, 'A')
    await ask(redis.locks, 'B', { want: 'turn' })
    await server.crash()
    await server.restart()
    // The first client to connect does not know the earlier run.
    await using newcomer = await openRedis(server.url, { namespace: 'default' })
    assert.deepEqual(await ask(newcomer.locks, 'C', { wait: false }, other), {
      status: 'refused',
      holder: null,
    })
    assert.deepEqual(await ask(newcomer.locks, 'C', {}, other), { status: 'queued', position: 1 })
    const began = performance.now()

    assert.equal((await renew(redis.locks, 'A', token)) !== undefined, true, 'the holder goes on')
    assert.deepEqual(await ask(redis.locks, 'B', { want: 'turn' }), { status: 'queued', position: 1 })
    const { released } = await end(redis.locks, 'A', token)
    assert.deepEqual(released, { next: null }, 'what is released is not granted yet')
    assert.equal((await ask(redis.locks, 'B', { want: 'turn' })).status, 'queued')

    await until('the sweep grants who waited', async () => {
      await newcomer.locks.sweep(100, times)
      return (await redis.locks.inspect(other, 1))?.holder?.node === 'C'
    })
    assert.ok(performance.now() - began > ttlMs - 300, 'and not before the grace is over')
    assert.ok((await granted(redis.locks, 'B')) > token, 'tokens rise')
    await granted(redis.locks, 'D', { operation: 'pull', resource: 'app:3.0' })
  })

  test('lets a holder renew a grant that Redis lost, and grants it to no other', async () => {
    await using server = await startOwn(['--appendonly', 'no'])
    await using redis = await openRedis(server.url, { namespace: 'default' })
    const before = await granted(redis.locks, 'A')
    await ask(redis.locks, 'B', { want: 'turn' })
    await server.command(['SAVE'])
    // Redis loses the writes that follow.
    await end(redis.locks, 'A', before)
    const token = await granted(redis.locks, 'B')
    const own = await granted(redis.locks, 'N', other)
    await server.crash()
    await server.restart()
    await using newcomer = await openRedis(server.url, { namespace: 'default' })
    assert.equal((await redis.locks.inspect(key, 1))?.holder?.node, 'A', 'the old holder is back')
    assert.equal((await ask(newcomer.locks, 'C', {}, other)).status, 'queued')

    assert.ok(await renew(redis.locks, 'B', token), 'the newer token wins')
    assert.ok(await renew(redis.locks, 'N', own, other))
    const { holder, waiterCount } = (await newcomer.locks.inspect(key, 1))!
    assert.deepEqual([holder?.node, waiterCount], ['B', 0])
    assert.equal(await renew(redis.locks, 'A', before), undefined, 'the older one is over')
    assert.equal((await newcomer.locks.inspect(other, 1))?.holder?.node, 'N')
    assert.equal(
      await renew(newcomer.locks, 'C', Number.MAX_SAFE_INTEGER, other),
      undefined,
      'this lock has no holder',
    )

    await until('the grace is over', async () => {
      // Its lease is no longer than the grace and started hardly later: unless it is renewed, it may end first.
      assert.ok(await renew(redis.locks, 'N', own, other), 'the holder goes on')
      return (await ask(newcomer.locks, 'X', { wait: false }, third)).status === 'granted'
    })
    assert.equal(
      await renew(redis.locks, 'A', before + 1, key),
      undefined,
      'after the grace no holder can restore its grant',
    )
    assert.equal((await end(redis.locks, 'N', own, other, 'failure')).released?.next?.node, 'C')
    assert.ok((await granted(newcomer.locks, 'C', other)) > own)
  })

  test('keeps the recovery grace after losing everything, because a client knows the earlier run', async () => {
    await using server = await startOwn(['--appendonly', 'no'])
    await using redis = await openRedis(server.url, { namespace: 'default' })
    const token = await granted(redis.locks, 'A')
    await server.crash()
    await rm(join(server.folder, 'dump.rdb'), { force: true })
    await server.restart()
    const began = performance.now()
    assert.equal((await ask(redis.locks, 'B')).status, 'queued')
    assert.ok(await renew(redis.locks, 'A', token))
    assert.equal((await ask(redis.locks, 'C', { wait: false }, other)).status, 'refused')
    await until(
      'the grace is over',
      async () => (await ask(redis.locks, 'C', {}, other)).status === 'granted',
    )
    assert.ok(performance.now() - began > ttlMs - 300)
    await until('the holder is lost', async () => (await ask(redis.locks, 'B')).status === 'granted')
    assert.ok((await granted(redis.locks, 'B')) > token)
  })

  test('keeps the newer of two excluding grants, although Redis had lost that one', async () => {
    await using server = await startOwn(['--appendonly', 'no'])
    await using redis = await openRedis(server.url, { namespace: 'default' })
    const rules = { ...times, conflicts: [['pull', 'delete']] as const }
    const deleting = { operation: 'delete', resource: key.resource }
    const take = async (of: LockKey, node: string) => {
      const wants = { wait: true, want: 'turn', ttlMs, deadlineMs: null, isStreamed: false } as const
      const { standing } = await redis.locks.acquire(of, { ...named(node), ...wants }, rules)
      return standing.status === 'granted' ? standing.token : standing.status
    }
    const renewed = async (of: LockKey, node: string, token: unknown) => {
      const who = { ...named(node), token: token as number }
      const terms = { ttlMs, progress: undefined }
      return (await redis.locks.renew(of, who, terms, rules)).expiresAt !== undefined
    }
    const older = await take(key, 'A')
    await server.command(['SAVE'])
    // Redis loses the writes that follow: A ends, and D is granted an operation that excludes it.
    const end = { outcome: 'failure', value: null, terminal: false } as const
    await redis.locks.release(key, { ...named('A'), token: older as number }, end, rules)
    const newer = await take(deleting, 'D')
    assert.ok(Number(newer) > Number(older))
    await server.crash()
    await server.restart()
    await until('it answers', async () => {
      const view = await redis.locks.inspect(key, 1).catch(() => undefined)
      return view?.holder?.node === 'A'
    })
    assert.equal(await renewed(deleting, 'D', newer), true, 'the newer token wins')
    assert.equal((await redis.locks.inspect(key, 1))?.holder ?? null, null, 'and the older is over')
    assert.equal(await renewed(key, 'A', older), false)
    assert.equal(await take(key, 'B'), 'queued')
    assert.equal((await redis.locks.inspect(deleting, 1))?.holder?.node, 'D')
  })

  test('starts no recovery grace after a broken connection', async () => {
    await using server = await startOwn(['--appendonly', 'no'])
    await using redis = await openRedis(server.url, { namespace: 'default' })
    await granted(redis.locks, 'A')
    await server.command(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
    await granted(redis.locks, 'C', other)
  })
})

describe.runIf(isOurs)('a Redis Cluster', () => {
  test('of one node runs every step: no script touches the keys of two slots', async () => {
    await using server = await startOwn(['--appendonly', 'no', '--cluster-enabled', 'yes'])
    await server.command(['CLUSTER', 'ADDSLOTSRANGE', '0', '16383'])
    await until('it serves all slots', async () =>
      String(await server.command(['CLUSTER', 'INFO'])).includes('cluster_state:ok'),
    )
    await using redis = await openRedis(server.url, { namespace: 'default' })
    const keys = Array.from({ length: 40 }, (_, nr) => ({ operation: 'pull', resource: `app:${nr}` }))
    const tokens = await Promise.all(keys.map((one) => granted(redis.locks, 'A', one)))
    await Promise.all(keys.map((one) => ask(redis.locks, 'B', { deadlineMs: 1 }, one)))
    await sleep(5)
    assert.equal((await redis.locks.sweep(100, times)).length, 40)
    await Promise.all(keys.map((one) => ask(redis.locks, 'C', {}, one)))
    assert.equal((await redis.locks.list({ limit: 30 })).length, 30)
    await Promise.all(keys.map((one, nr) => renew(redis.locks, 'A', tokens[nr]!, one)))
    const ends = await Promise.all(keys.map((one, nr) => end(redis.locks, 'A', tokens[nr]!, one)))
    assert.ok(ends.every(({ released, notified }) => released?.next === null && notified.everyone))
    assert.deepEqual(await redis.locks.list({ limit: 30 }), [])

    const rules = { ...times, conflicts: [['pull', 'delete']] as const }
    const wants = { wait: true, want: 'turn', ttlMs, deadlineMs: null, isStreamed: false } as const
    const take = async (of: LockKey, node: string) =>
      (await redis.locks.acquire(of, { ...named(node), ...wants }, rules)).standing.status
    assert.deepEqual(await Promise.all(keys.map((one) => take(one, 'A'))), Array(40).fill('granted'))
    const deletes = keys.map((one) => ({ ...one, operation: 'delete' }))
    assert.deepEqual(await Promise.all(deletes.map((one) => take(one, 'A'))), Array(40).fill('queued'))
    assert.equal((await redis.locks.findWaitingHolders(keys.slice(0, 10))).length, 10 * 40)
  })

  test('of several nodes is refused with an explanation', async () => {
    await using one = await startOwn(['--appendonly', 'no', '--cluster-enabled', 'yes'])
    await using two = await startOwn(['--appendonly', 'no', '--cluster-enabled', 'yes'])
    await one.command(['CLUSTER', 'ADDSLOTSRANGE', '0', '8191'])
    await two.command(['CLUSTER', 'ADDSLOTSRANGE', '8192', '16383'])
    const busPort = /@(\d+)/.exec(String(await two.command(['CLUSTER', 'NODES'])))![1]!
    await one.command(['CLUSTER', 'MEET', '127.0.0.1', new URL(two.url).port, busPort])
    await until('they know each other', async () =>
      String(await one.command(['CLUSTER', 'INFO'])).includes('cluster_size:2'),
    )
    await assert.rejects(openRedis(one.url, { namespace: 'default' }), {
      code: 'engine_unsupported',
      message: /Cluster/,
    })
  })
})

const third = { operation: 'pull', resource: 'app:9' }

interface OwnServer extends AsyncDisposable {
  readonly url: string
  readonly folder: string
  command(words: readonly string[]): Promise<unknown>
  crash(): Promise<void>
  restart(): Promise<void>
}

/** A Redis that can be killed, and restarts with the data that it had written. */
async function startOwn(settings: readonly string[]): Promise<OwnServer> {
  const folders = binaryFolders(process.env)
  const names = ['redis-server', 'valkey-server', 'redis-check-rdb']
  const binary = names.map((name) => findBinary(name, folders)).find((path) => path !== undefined)
  assert.ok(binary, 'there is a Redis to start')
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('redis-own'))
  const start = (port: number) => {
    const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder.path, '--save', '']
    // Nodes of a cluster use a port 10,000 above, which must be a valid port.
    const bus =
      settings.includes('--cluster-enabled') && port > 55_000 ? ['--cluster-port', `${port - 20_000}`] : []
    return startProgram(binary, [...own, ...settings, ...bus], { argv0: 'redis-server' })
  }
  const answers = async (port: number) =>
    assert.match(
      String(await command(`redis://127.0.0.1:${port}`, ['CONFIG', 'GET', 'dir'])),
      new RegExp(folder.path),
    )
  const { program, port } = await startOnFreePort(start, answers)
  const revivable = kept.use(
    createRevivable(
      program,
      () => start(port),
      () => answers(port),
    ),
  )
  const owned = kept.move()
  const url = `redis://127.0.0.1:${port}`
  return {
    url,
    folder: folder.path,
    command: (words) => command(url, words),
    crash: () => revivable.crash(),
    restart: () => revivable.restart(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function command(url: string, words: readonly string[]): Promise<unknown> {
  const client = createClient({ url, RESP: 2, socket: { reconnectStrategy: false } })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await client.sendCommand([...words])
  } finally {
    client.destroy()
  }
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
    ttlMs,
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

async function renew(
  store: LockStore,
  node: string,
  token: number,
  of: LockKey = key,
): Promise<number | undefined> {
  const terms = { ttlMs, progress: undefined }
  return (await store.renew(of, { ...named(node), token }, terms, times)).expiresAt
}

function end(
  store: LockStore,
  node: string,
  token: number,
  of: LockKey = key,
  outcome: 'success' | 'failure' = 'success',
) {
  return store.release(of, { ...named(node), token }, { outcome, value: null, terminal: false }, times)
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 30_000; !(await isSo()); await sleep(20))
    assert.ok(Date.now() < deadline, `${what} within 30 s`)
}
