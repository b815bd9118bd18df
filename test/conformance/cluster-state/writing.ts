import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { ClusterStateCandidate } from './opening.ts'
import { aWrite, ClusterStage, plenty, until } from './stage.ts'

/** A write succeeds only if the row is still as the writer saw it. */
export function writingContract({ open, isShared }: ClusterStateCandidate): void {
  test('a row is created once; a second writer is refused', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    assert.equal(await stage.find('a'), undefined)
    const version = await stage.made('a', { doc: '{"n":1}' })
    const row = { kind: 'node', key: 'a', version, doc: '{"n":1}', expiresAt: null }
    assert.deepEqual(await stage.find('a'), row)
    assert.equal(await stage.put('a', { doc: '{"n":2}' }), null)
    assert.deepEqual(await stage.find('a'), row)
    assert.deepEqual(await stage.allRows(), [row])
  })

  test('a row is changed only by a writer that has seen its latest version', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const first = await stage.made('a', { doc: '1' })
    const second = await stage.made('a', { seen: first, doc: '2' })
    assert.ok(second > first)
    for (const seen of [first, second + 1, second - 0.5, 1_000_000])
      assert.equal(await stage.put('a', { seen, doc: '3' }), null, `${seen}`)
    assert.deepEqual(await stage.find('a'), {
      ...{ kind: 'node', key: 'a', version: second, doc: '2', expiresAt: null },
    })
    // The version of another row has no meaning for this row.
    const other = await stage.made('b')
    assert.equal(await stage.put('a', { seen: other, doc: '3' }), null)
    assert.equal((await stage.find('a'))?.doc, '2')
  })

  test('changing a row that never existed is refused', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const version = await stage.made('a')
    for (const seen of [1, version, version + 1]) {
      assert.equal(await stage.put('b', { seen }), null)
      assert.equal(await stage.put('b', { seen, doc: null }), null)
    }
    assert.equal(await stage.find('b'), undefined)
    assert.equal((await stage.allRows()).length, 1)
  })

  test('a writer that has seen its version removes a row, which can then be created again', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const made = await stage.made('a', { doc: '1', forMs: 60_000 })
    assert.equal(await stage.put('a', { doc: null }), null)
    assert.equal(await stage.put('a', { seen: made + 1, doc: null }), null)
    assert.equal((await stage.find('a'))?.doc, '1')
    const removed = await stage.made('a', { seen: made, doc: null, forMs: 60_000 })
    assert.ok(removed > made)
    assert.equal(await stage.find('a'), undefined)
    assert.deepEqual(await stage.allRows(), [
      { kind: 'node', key: 'a', version: removed, doc: null, expiresAt: null },
    ])
    assert.equal(await stage.put('a', { seen: made, doc: '2' }), null)
    const again = await stage.made('a', { seen: 0, doc: '3' })
    assert.ok(again > removed)
    assert.equal((await stage.find('a'))?.doc, '3')
    assert.equal((await stage.allRows()).length, 1)
  })

  test('a writer may create a row again by naming the version of its removal', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const removed = await stage.made('a', { seen: await stage.made('a'), doc: null })
    const again = await stage.made('a', { seen: removed, doc: '1' })
    assert.equal(await stage.put('a', { seen: removed, doc: '2' }), null)
    assert.deepEqual([(await stage.find('a'))?.version, (await stage.find('a'))?.doc], [again, '1'])
  })

  test('readers see the removal of a missing row like any other write', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const first = await stage.made('a', { doc: null })
    const second = await stage.made('a', { doc: null })
    assert.ok(second > first)
    assert.equal(await stage.find('a'), undefined)
    assert.deepEqual(
      (await stage.allRows()).map(({ version, doc }) => [version, doc]),
      [[second, null]],
    )
  })

  test('one outdated write of a call does not stop the others', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const [a, b, c] = await stage.all(['a', 'b', 'c'].map((key) => aWrite(key, { doc: '1' })))
    const versions = await stage.store.write([
      aWrite('a', { seen: a!, doc: '2' }),
      aWrite('b', { seen: b! - 1_000, doc: '2' }),
      aWrite('c', { seen: c!, doc: null }),
      aWrite('c', { seen: c!, doc: '2' }),
      aWrite('d', { doc: '2' }),
      aWrite('e', { seen: 7, doc: '2' }),
    ])
    assert.deepEqual(
      versions.map((version) => version !== null),
      [true, false, true, false, true, false],
    )
    assert.deepEqual(
      await Promise.all(['a', 'b', 'c', 'd', 'e'].map(async (key) => (await stage.find(key))?.doc)),
      ['2', '1', undefined, '2', undefined],
    )
    assert.deepEqual(
      (await stage.allRows()).map(({ key, version }) => [key, version]),
      [
        ['b', b],
        ['a', versions[0]],
        ['c', versions[2]],
        ['d', versions[4]],
      ],
    )
  })

  test('writes of one call run in their order, and each sees the earlier ones', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const first = await stage.made('a', { doc: '1' })
    const versions = await stage.store.write([
      aWrite('b', { doc: 'null' }),
      aWrite('b', { doc: '0' }),
      aWrite('a', { seen: first, doc: null }),
      aWrite('a', { doc: '2' }),
      aWrite('a', { doc: '3' }),
      aWrite('c'),
    ])
    assert.deepEqual(
      versions.map((version) => version !== null),
      [true, false, true, true, false, true],
    )
    const made = versions.filter((version) => version !== null)
    assert.deepEqual(
      made,
      made.toSorted((a, b) => a - b),
    )
    assert.ok(made[0]! > first && new Set(made).size === made.length)
    assert.deepEqual([(await stage.find('a'))?.doc, (await stage.find('b'))?.doc], ['2', 'null'])
    assert.equal((await stage.find('a'))?.version, versions[3])
  })

  test('an empty call or an outdated write leaves nothing for readers', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    assert.deepEqual(await stage.store.write([]), [])
    assert.equal(await stage.put('a', { seen: 9 }), null)
    assert.deepEqual(await stage.allRows(), [])
    const version = await stage.made('a')
    assert.equal(await stage.put('a'), null)
    assert.deepEqual((await stage.store.read(version, plenty)).rows, [])
  })

  test('one call writes many rows', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const keys = Array.from({ length: 500 }, (_, n) => `node-${n}`)
    const versions = await stage.all(keys.map((key) => aWrite(key, { doc: JSON.stringify({ key }) })))
    const rows = await stage.allRows()
    assert.deepEqual(
      rows.map(({ key, version, doc }) => ({ key, version, doc })),
      keys.map((key, n) => ({ key, version: versions[n], doc: JSON.stringify({ key }) })),
    )
  })

  test("the expiry time of a row comes from the store's clock, and an expired row stays", async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const before = await stage.now()
    const version = await stage.made('a', { forMs: 60_000 })
    const brief = await stage.made('b', { forMs: 1 })
    const after = await stage.now()
    const { expiresAt } = (await stage.find('a'))!
    assert.ok(expiresAt !== null && expiresAt >= before + 60_000 && expiresAt <= after + 60_000)
    assert.deepEqual(
      (await stage.allRows()).map((row) => row.expiresAt),
      [expiresAt, (await stage.find('b'))!.expiresAt],
    )
    const lapsesAt = (await stage.find('b'))!.expiresAt!
    await until('the time is over', async () => (await stage.now()) > lapsesAt)
    assert.equal(await stage.store.prune(plenty, 0), 0)
    assert.equal((await stage.find('b'))?.version, brief)
    assert.equal(await stage.put('b'), null)
    await stage.made('b', { seen: brief, forMs: null })
    assert.equal((await stage.find('b'))?.expiresAt, null)
    await stage.made('a', { seen: version, forMs: 120_000 })
    assert.ok((await stage.find('a'))!.expiresAt! >= after + 120_000)
  })

  test.runIf(isShared)('a reopened cluster state keeps its rows and continues its versions', async () => {
    const namespace = aNamespace()
    let last: number
    let rows: Awaited<ReturnType<ClusterStage['allRows']>>
    {
      await using backend = await open({ namespace })
      const stage = new ClusterStage(backend)
      await stage.made('a', { doc: '{"n":1}', forMs: 60_000 })
      last = await stage.made('b', { seen: await stage.made('b'), doc: null })
      rows = await stage.allRows()
    }
    await using backend = await open({ namespace })
    const stage = new ClusterStage(backend)
    assert.deepEqual(await stage.allRows(), rows)
    const page = await stage.store.read(last, plenty)
    assert.deepEqual([page.rows, page.isReset], [[], false])
    assert.ok((await stage.made('c')) > last)
  })

  test('a closed backend refuses every call on the cluster state', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend.cluster.write([aWrite('a')])
    const other = backend.within(aNamespace())
    await backend[Symbol.asyncDispose]()
    for (const { cluster } of [backend, other]) {
      await assert.rejects(cluster.write([aWrite('b')]), { code: 'closed' })
      await assert.rejects(cluster.read(0, 1), { code: 'closed' })
      await assert.rejects(cluster.find('node', 'a'), { code: 'closed' })
      await assert.rejects(cluster.prune(1, 0), { code: 'closed' })
    }
  })
}
