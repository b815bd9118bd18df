import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { ClusterStateCandidate } from './opening.ts'
import { aWrite, ClusterStage, Follower, isThere, keysOf, plenty, until } from './stage.ts'

/** The store forgets removed rows after a while. A reader that was away for longer starts again. */
export function forgettingContract({ open, isShared }: ClusterStateCandidate): void {
  /** A cluster state with `kept` rows, then `gone` removed rows, then one more row. Returns all their versions. */
  async function stateWith(stage: ClusterStage, kept: number, gone: number) {
    await stage.all(Array.from({ length: kept }, (_, n) => aWrite(`kept ${n}`)))
    const goneKeys = Array.from({ length: gone }, (_, n) => `gone ${n}`)
    const goneVersions = await stage.all(goneKeys.map((key) => aWrite(key)))
    const removed = await stage.all(
      goneKeys.map((key, n) => aWrite(key, { seen: goneVersions[n]!, doc: null })),
    )
    const last = await stage.made('newest')
    return { goneVersions, removed, last }
  }

  test('pruning forgets old removed rows, at most as many as asked', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    await stateWith(stage, 2, 5)
    assert.equal(await stage.store.prune(plenty, 600_000), 0)
    assert.equal((await stage.allRows()).length, 8)
    await until('the rows are old', async () => (await stage.store.prune(3, 0)) === 3)
    assert.equal((await stage.allRows()).length, 5)
    assert.equal(await stage.store.prune(plenty, 600_000), 0)
    assert.equal(await stage.store.prune(plenty, 0), 2)
    assert.deepEqual(keysOf(await stage.allRows()), ['kept 0', 'kept 1', 'newest'])
    assert.equal(await stage.store.prune(plenty, 0), 0)
  })

  test('a reader starts again only if it missed rows that were forgotten', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const { goneVersions, removed, last } = await stateWith(stage, 3, 2)
    const follower = new Follower(stage.store)
    await follower.catchUp()
    const away = new Follower(stage.store)
    away.since = goneVersions.at(-1)!
    assert.equal(await stage.forgetRemoved(), 2)
    const kept = ['kept 0', 'kept 1', 'kept 2', 'newest']
    for (const since of [1, goneVersions[0]!, goneVersions[1]!, removed[0]!, removed[1]! - 1]) {
      const page = await stage.store.read(since, plenty)
      assert.equal(page.isReset, true, `${since} of ${removed[1]}`)
      assert.deepEqual(keysOf(page.rows), kept)
    }
    const whole = await stage.store.read(removed[1]!, plenty)
    assert.deepEqual([keysOf(whole.rows), whole.isReset], [['newest'], false])
    const page = await stage.store.read(last, plenty)
    assert.deepEqual([page.rows, page.isReset], [[], false])
    assert.equal((await stage.store.read(0, plenty)).isReset, false)
    await stage.made('new')
    for (const one of [follower, away]) await one.catchUp()
    assert.deepEqual([follower.resetCount, away.resetCount], [0, 1])
    assert.deepEqual(follower.live(), away.live())
    assert.deepEqual(keysOf(away.live()), [...kept, 'new'])
  })

  test('the cluster state is read page by page to its end after rows were forgotten', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    await stateWith(stage, 5, 3)
    await stage.forgetRemoved()
    await stage.all(Array.from({ length: 6 }, (_, n) => aWrite(`later ${n}`)))
    const expected = await stage.allRows()
    assert.equal(expected.length, 12)
    for (const limit of [1, 2, 5, 6, 7, 100]) {
      const follower = new Follower(stage.store, limit)
      await follower.catchUp()
      assert.deepEqual(follower.live(), expected, `pages of ${limit}`)
      assert.equal(follower.resetCount, 0)
      // A reader that was away starts again, exactly once.
      const away = new Follower(stage.store, limit)
      away.since = expected[2]!.version
      await away.catchUp()
      assert.deepEqual(away.live(), expected, `anew in pages of ${limit}`)
      assert.equal(away.resetCount, 1)
    }
  })

  test('a reader that pages drops a row that is forgotten meanwhile', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    const versions = await stage.all(Array.from({ length: 6 }, (_, n) => aWrite(`k${n}`)))
    const follower = new Follower(stage.store, 2)
    await follower.page()
    assert.equal(follower.rows.size, 2)
    await stage.all([aWrite('k0', { seen: versions[0]!, doc: null }), aWrite('k6')])
    assert.equal(await stage.forgetRemoved(), 1)
    await follower.catchUp()
    assert.equal(follower.resetCount, 1)
    assert.deepEqual(keysOf(follower.live()), ['k1', 'k2', 'k3', 'k4', 'k5', 'k6'])
  })

  test('pruning keeps the newest row, and versions continue to rise from it', async () => {
    const namespace = aNamespace()
    let backend = await open({ namespace })
    try {
      const stage = new ClusterStage(backend)
      const { removed, last: newest } = await stateWith(stage, 3, 1)
      const last = await stage.made('newest', { seen: newest, doc: null })
      // A reader that has read to the end is past all forgotten versions and continues there.
      assert.equal(await stage.forgetRemoved(), 1)
      assert.deepEqual(keysOf(await stage.allRows()), ['kept 0', 'kept 1', 'kept 2', 'newest'])
      for (const limit of [1, 2, plenty]) {
        const follower = new Follower(stage.store, limit)
        await follower.catchUp()
        await follower.catchUp()
        assert.deepEqual([follower.since, follower.resetCount], [last, 0])
      }
      if (isShared) {
        await backend[Symbol.asyncDispose]()
        backend = await open({ namespace })
      }
      const after = new ClusterStage(backend)
      assert.equal((await after.store.read(last, plenty)).isReset, false)
      assert.equal((await after.store.read(removed[0]!, plenty)).isReset, false)
      assert.equal((await after.store.read(removed[0]! - 1, plenty)).isReset, true)
      assert.equal(await after.put('gone 0', { seen: removed[0]! }), null)
      const version = await after.made('gone 0', { doc: '1' })
      assert.ok(version > last)
      const { rows, isReset } = await after.store.read(last, plenty)
      assert.deepEqual([rows.map((row) => row.version), isReset], [[version], false])
      assert.equal(await after.forgetRemoved(), 1)
      assert.deepEqual(keysOf(await after.allRows()), ['kept 0', 'kept 1', 'kept 2', 'gone 0'])
    } finally {
      await backend[Symbol.asyncDispose]()
    }
  })

  test('pruning keeps a removed row that was created again', async () => {
    await using backend = await open()
    const stage = new ClusterStage(backend)
    await stateWith(stage, 1, 2)
    const again = await stage.made('gone 1', { doc: '"again"' })
    assert.equal(await stage.forgetRemoved(), 1)
    assert.equal((await stage.find('gone 1'))?.version, again)
    assert.deepEqual(keysOf((await stage.allRows()).filter(isThere)), ['kept 0', 'newest', 'gone 1'])
    // Nor is a row forgotten that was removed again recently.
    await stage.all([aWrite('gone 1', { seen: again, doc: null }), aWrite('other')])
    await stage.tick()
    assert.equal(await stage.store.prune(plenty, 600_000), 0)
    assert.equal(await stage.store.prune(plenty, 0), 1)
  })

  test('pruning one namespace leaves the removed rows of another', async () => {
    await using backend = await open()
    const [mine, yours] = [new ClusterStage(backend), new ClusterStage(backend.within(aNamespace()))]
    const { removed } = await stateWith(mine, 1, 2)
    const { goneVersions } = await stateWith(yours, 1, 2)
    assert.equal(await mine.forgetRemoved(), 2)
    assert.equal((await yours.allRows()).length, 4)
    assert.equal((await yours.store.read(goneVersions[0]!, plenty)).isReset, false)
    assert.equal((await mine.store.read(removed[0]!, plenty)).isReset, true)
    assert.equal(await yours.forgetRemoved(), 2)
  })
}
