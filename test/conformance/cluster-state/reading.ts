import assert from 'node:assert/strict'
import { test } from 'vitest'
import { clusterTopic } from '../../../src/dispatch/cluster/cluster-store.ts'
import { aNamespace } from '../candidates.ts'
import { type ClusterStateCandidate, openTwo } from './opening.ts'
import { aWrite, ClusterStage, Follower, keysOf, plenty } from './stage.ts'

/** A reader that has read up to a version has missed nothing below it. */
export function readingContract(candidate: ClusterStateCandidate): void {
  const { open } = candidate
  const many = (count: number) => Array.from({ length: count }, (_, n) => aWrite(`k${n}`, { doc: `${n}` }))

  test("an empty cluster state has no rows and returns the store's time", async () => {
    await using backend = await open()
    const page = await backend.cluster.read(0, 10)
    assert.deepEqual([page.rows, page.isReset], [[], false])
    assert.ok(Number.isSafeInteger(page.now) && page.now > Date.UTC(2020))
  })

  test('rows are read in the order of their versions, page by page', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = await stage.all(many(25))
    const sizes: number[] = []
    const follower = new Follower(backend.cluster, 7)
    for (let n = 0; n < 5; n++) sizes.push((await follower.page()).rows.length)
    assert.deepEqual(sizes, [7, 7, 7, 4, 0])
    assert.deepEqual(
      follower.seen.map(({ version }) => version),
      versions,
    )
    assert.deepEqual(follower.seen, await stage.allRows())
    assert.equal((await backend.cluster.read(0, 1)).rows.length, 1)
    assert.deepEqual((await backend.cluster.read(versions[9]!, 3)).rows, follower.seen.slice(10, 13))
    assert.equal(follower.resetCount, 0)
  })

  test('a row that is written again is read once, with its newest content', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = await stage.all(many(5))
    const follower = new Follower(backend.cluster, 2)
    await follower.page()
    const second = await stage.made('k1', { seen: versions[1]!, doc: '"second"' })
    await stage.made('k3', { seen: versions[3]!, doc: '"second"' })
    await stage.made('k1', { seen: second, doc: '"third"' })
    await follower.catchUp()
    assert.deepEqual(
      follower.seen.map(({ key, doc }) => [key, doc]),
      [
        ['k0', '0'],
        ['k1', '1'],
        ['k2', '2'],
        ['k4', '4'],
        ['k3', '"second"'],
        ['k1', '"third"'],
      ],
    )
    assert.deepEqual(follower.live(), await stage.allRows())
  })

  test('readers see the removal of a row in version order', async () => {
    await using two = await openTwo(candidate)
    const [here, there] = two.clusters.map((stores) => new ClusterStage(stores)) as [
      ClusterStage,
      ClusterStage,
    ]
    const versions = await here.all(many(4))
    const follower = new Follower(there.store, 2)
    await follower.catchUp()
    assert.equal(follower.rows.size, 4)
    const removed = await here.made('k1', { seen: versions[1]!, doc: null })
    const changed = await here.made('k2', { seen: versions[2]!, doc: '"new"' })
    const { rows } = await there.store.read(follower.since, plenty)
    assert.deepEqual(rows, [
      { kind: 'node', key: 'k1', version: removed, doc: null, expiresAt: null },
      { kind: 'node', key: 'k2', version: changed, doc: '"new"', expiresAt: null },
    ])
    await follower.catchUp()
    assert.deepEqual(keysOf(follower.live()), ['k0', 'k3', 'k2'])
    // A row that is created again is a row like any other.
    await there.made('k1', { doc: '"again"' })
    await follower.catchUp()
    assert.deepEqual(keysOf(follower.live()), ['k0', 'k3', 'k2', 'k1'])
    assert.equal(follower.resetCount, 0)
  })

  test('a row that one backend writes can be read and changed by another at once', async () => {
    await using two = await openTwo(candidate)
    const [here, there] = two.clusters.map((stores) => new ClusterStage(stores)) as [
      ClusterStage,
      ClusterStage,
    ]
    let version = 0
    for (let n = 0; n < 10; n++) {
      const [writer, reader] = n % 2 ? [here, there] : [there, here]
      const next = await writer.made('a', { seen: version, doc: `${n}` })
      assert.deepEqual(await reader.find('a'), {
        ...{ kind: 'node', key: 'a', version: next, doc: `${n}`, expiresAt: null },
      })
      assert.equal((await reader.store.read(version, plenty)).rows.length, 1)
      assert.equal(await reader.put('a', { seen: version, doc: '"late"' }), null)
      version = next
    }
  })

  test('a successful write wakes the listeners of the cluster state', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const version = await stage.made('a')
    const { promise, resolve } = Promise.withResolvers<void>()
    const stop = backend.notifier.listen([clusterTopic], resolve)
    await stage.made('a', { seen: version, doc: null })
    await promise
    stop()
  })

  test('a reader with an unknown version starts from the beginning', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const empty = await backend.cluster.read(17, 10)
    assert.deepEqual([empty.rows, empty.isReset], [[], true])
    const [, , last] = await stage.all(many(3))
    assert.equal((await backend.cluster.read(last!, 10)).isReset, false)
    const page = await backend.cluster.read(last! + 1, 10)
    assert.equal(page.isReset, true)
    assert.deepEqual(keysOf(page.rows), ['k0', 'k1', 'k2'])
    const part = await backend.cluster.read(last! + 1, 2)
    assert.deepEqual([keysOf(part.rows), part.isReset], [['k0', 'k1'], true])
  })

  test('a namespace sees neither rows nor versions of another', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const here = new ClusterStage(backend)
    const name = aNamespace()
    const mine = await here.made('a', { doc: '"here"' })
    for (const other of [name, `${name}:fleet`, `${name}.`, name.toUpperCase()]) {
      const there = new ClusterStage(backend.within(other))
      assert.deepEqual(await there.allRows(), [])
      assert.equal(await there.find('a'), undefined)
      assert.equal(await there.put('b', { seen: mine }), null)
      const version = await there.made('a', { doc: JSON.stringify(other) })
      await there.made('a', { seen: version, doc: null })
      await there.made('a', { doc: JSON.stringify(other) })
      assert.equal((await there.allRows()).length, 1)
    }
    assert.deepEqual(await here.allRows(), [
      { kind: 'node', key: 'a', version: mine, doc: '"here"', expiresAt: null },
    ])
    assert.deepEqual((await here.store.read(mine, plenty)).rows, [])
    assert.equal((await here.store.read(mine, plenty)).isReset, false)
    assert.equal((await new ClusterStage(backend.within(name)).find('a'))?.doc, JSON.stringify(name))
  })
}
