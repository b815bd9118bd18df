/** Faults of the cluster state that only Redis can have: lost data, lost answers, and missed wake-ups. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'vitest'
import {
  type ClusterStore,
  type ClusterWrite,
  clusterTopic,
} from '../../../src/dispatch/cluster/cluster-store.ts'
import { openBackend } from '../../../src/storage/open.ts'
import { createRedisClusterState } from '../../../src/storage/redis/cluster-state.ts'
import { Connection } from '../../../src/storage/redis/connection.ts'
import { Recovery } from '../../../src/storage/redis/recovery.ts'
import { dispatchedContract } from '../../conformance/cluster-state/namespaces.ts'
import { within } from '../../support/deadline.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'

describe.runIf(hasService('redis'))('the cluster state in Redis', () => {
  test('makes old readers start again after it lost everything, and its versions continue to rise', async () => {
    await using stage = await openStage()
    const clusterStore = stage.inRun('one')
    const [version] = await clusterStore.write([aWrite('a')])
    await stage.forget()
    assert.equal((await clusterStore.read(version!, 10)).isReset, true)
    assert.deepEqual(await clusterStore.write([aWrite('a', version!)]), [null])
    const [again] = await clusterStore.write([aWrite('b')])
    assert.ok(again! > version!)
    const { rows, isReset } = await clusterStore.read(version!, 10)
    assert.deepEqual([rows.map(({ key }) => key), isReset], [['b'], true])
    assert.equal((await clusterStore.read(again!, 10)).isReset, false)
  })

  test('makes readers start again that had read writes which Redis lost', async () => {
    await using stage = await openStage()
    const clusterStore = stage.inRun('one')
    const [first] = await clusterStore.write([aWrite('a')])
    const saved = await stage.save()
    const [second] = await clusterStore.write([aWrite('a', first!)])
    const [lost] = await clusterStore.write([aWrite('b')])
    await stage.restore(saved)
    const later = stage.inRun('two')
    assert.equal((await later.read(lost!, 10)).isReset, true)
    assert.equal((await later.read(first!, 10)).isReset, false)
    assert.deepEqual(await later.write([aWrite('a', second!)]), [null])

    // Also once its new versions are above the lost ones.
    const [third] = await later.write([aWrite('c')])
    assert.ok(third! > lost!)
    for (const since of [first!, second!, lost!]) {
      const { rows, isReset } = await later.read(since, 1)
      assert.equal(isReset, true)
      assert.deepEqual(
        rows.map(({ key, version }) => [key, version]),
        [
          ['a', first],
          ['c', third],
        ],
      )
    }
    assert.equal((await later.read(third!, 10)).isReset, false)
    const [fourth] = await later.write([aWrite('c', third!)])
    assert.equal((await later.read(third!, 10)).isReset, false)
    assert.ok(fourth! > third!)
  })

  test('answers a write whose answer was lost as it did the first time', async () => {
    await using stage = await openStage()
    const clusterStore = stage.inRun('one')
    const [a] = await clusterStore.write([aWrite('a')])
    const twice = stage.sendingTwice()
    const writes = [aWrite('a', a!, null), aWrite('a'), aWrite('a', a!), aWrite('b')]
    const versions = await twice.write(writes)
    assert.deepEqual(
      versions.map((version) => version !== null),
      [true, true, false, true],
    )
    assert.equal((await clusterStore.find('node', 'a'))?.version, versions[1])
    assert.equal((await clusterStore.find('node', 'b'))?.version, versions[3])
    assert.equal(await clusterStore.find('node', 'c'), undefined)
  })

  test('serves every box that uses Redis, and its writes wake every other box', async () => {
    await using stage = await openStage()
    const { namespace, url } = stage
    await using one = await openBackend('memory:', { namespace, migrate: true, redis: url })
    await using two = await openBackend('memory:', { namespace, migrate: true, redis: url })
    let heard = Promise.withResolvers<void>()
    two.notifier.listen([clusterTopic], () => heard.resolve())
    // A new listener is called once, for changes it may have missed.
    await within(10_000, 'the other box', heard.promise)
    heard = Promise.withResolvers<void>()
    const [version] = await one.cluster.write([aWrite('a')])
    await within(10_000, 'the other box', heard.promise)
    assert.equal((await two.cluster.find('node', 'a'))?.version, version)
    assert.equal((await stage.inRun('').find('node', 'a'))?.version, version)
    assert.equal((await one.within(`${namespace}-other`).cluster.read(0, 10)).rows.length, 0)
  })

  dispatchedContract({
    open: ({ namespace = 'default' } = {}) =>
      openBackend('memory:', { namespace, migrate: true, redis: serviceFacts('redis').url }),
  })
})

function aWrite(key: string, seen = 0, doc: string | null = '{}'): ClusterWrite {
  return { kind: 'node', key, seen, doc, forMs: null }
}

/** A cluster state in a new namespace, and the effects of a server that loses data. */
async function openStage() {
  const namespace = `fleet-${randomBytes(6).toString('hex')}`
  const { url } = serviceFacts('redis')
  const connection = new Connection(url, new Recovery())
  await connection.open()
  const send = <Reply>(...words: string[]) => connection.send<Reply>(words, words)
  const kept = ['fleet', 'fleetrows', 'fleetversions', 'fleetremoved']
  const keysOfClusterState = () => send<string[]>('KEYS', `signalbox:{sb:*}:*:${namespace}*`)
  const forget = async () => {
    const keys = await keysOfClusterState()
    if (keys.length > 0) await send('DEL', ...keys)
  }
  return {
    namespace,
    url,
    /** The cluster state as a client writes it in one run of the server. */
    inRun: (runId: string): ClusterStore =>
      createRedisClusterState({ connection, recovery: { runId } }, namespace),
    /** The cluster state of a client that never gets the first answer. */
    sendingTwice: (): ClusterStore =>
      createRedisClusterState(
        {
          recovery: { runId: 'one' },
          connection: {
            send: (command, again) => connection.send(command, again),
            async run(script, keys, args, again) {
              await connection.run(script, keys, args)
              return connection.run(script, keys, again!)
            },
          },
        },
        namespace,
      ),
    forget,
    /** The present content of the cluster state. */
    async save(): Promise<ReadonlyMap<string, readonly string[]>> {
      const saved = new Map<string, readonly string[]>()
      for (const key of await keysOfClusterState()) {
        if (!kept.some((kind) => key.includes(`:${kind}:`))) continue
        const isHash = (await send<string>('TYPE', key)) === 'hash'
        const words = isHash ? ['HGETALL', key] : ['ZRANGE', key, '0', '-1', 'WITHSCORES']
        const entries = await send<string[]>(...words)
        const swapped = entries.flatMap((_, at) => (at % 2 ? [] : [entries[at + 1]!, entries[at]!]))
        saved.set(key, isHash ? ['HSET', key, ...entries] : ['ZADD', key, ...swapped])
      }
      return saved
    },
    async restore(saved: ReadonlyMap<string, readonly string[]>) {
      await forget()
      for (const words of saved.values()) await send(...words)
    },
    async [Symbol.asyncDispose]() {
      await forget()
      await connection.close()
    },
  }
}
