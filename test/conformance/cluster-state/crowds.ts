import assert from 'node:assert/strict'
import { setImmediate as breathe } from 'node:timers/promises'
import { test } from 'vitest'
import { type ClusterStateCandidate, openTwo } from './opening.ts'
import { aWrite, ClusterStage, Follower, isThere, plenty } from './stage.ts'

/** Many at once, through two backends on one store. */
export function crowdsContract(candidate: ClusterStateCandidate): void {
  const open = async () => {
    const two = await openTwo(candidate)
    const stages = two.clusters.map((stores) => new ClusterStage(stores)) as [ClusterStage, ClusterStage]
    return { stages, [Symbol.asyncDispose]: () => two[Symbol.asyncDispose]() }
  }
  const twenty = Array.from({ length: 20 }, (_, n) => n)

  test('of 20 backends that create, change or remove a row at once, exactly one succeeds', async () => {
    await using both = await open()
    let seen = 0
    for (let round = 0; round < 9; round++) {
      const doc = (n: number) => (round % 3 === 2 ? null : `${n}`)
      const versions = await Promise.all(
        twenty.map((n) => both.stages[n % 2]!.put('a', { seen, doc: doc(n) })),
      )
      const winners = twenty.filter((n) => versions[n] !== null)
      assert.equal(winners.length, 1)
      const [winner] = winners
      const found = await both.stages[round % 2]!.find('a')
      assert.equal(found?.doc ?? null, doc(winner!))
      if (found) assert.equal(found.version, versions[winner!])
      seen = found?.version ?? 0
    }
  })

  test('a reader that follows many writers misses no row and ends with the present rows', async () => {
    await using both = await open()
    const { stages } = both
    const written = new Map<number, string>()
    const note = (version: number, key: string, doc: string | null) => {
      assert.ok(!written.has(version), `${version} is given once`)
      written.set(version, `${key} ${doc}`)
    }

    /** Writes rows once, so that a missed row stays missed; some of them are removed at once. */
    async function fill(writer: number): Promise<void> {
      const stage = stages[writer % 2]!
      for (let n = 0; n < 12; n++) {
        const [one, two] = [`own ${writer}.${n}`, `brief ${writer}.${n}`]
        const [first, second] = await stage.all([aWrite(one, { doc: `${n}` }), aWrite(two)])
        note(first!, one, `${n}`)
        note(second!, two, '{}')
        if (n % 3 === 0) note(await stage.made(two, { seen: second!, doc: null }), two, null)
      }
    }

    /** All writers compete for the counters. Each successful write must be counted. */
    async function count(writer: number): Promise<void> {
      const stage = stages[writer % 2]!
      for (let done = 0; done < 8; ) {
        const key = `counter ${(writer + done) % 2}`
        const found = await stage.find(key)
        const doc = `${Number(found?.doc ?? 0) + 1}`
        const version = await stage.put(key, { seen: found?.version ?? 0, doc })
        if (version === null) continue
        note(version, key, doc)
        done++
      }
    }

    let isOver = false
    const followers = [1, 3, 50].flatMap((limit) => stages.map(({ store }) => new Follower(store, limit)))
    const following = followers.map(async (follower) => {
      while (!isOver) {
        await follower.page()
        // An engine that answers without waiting would give the writers no turn.
        await breathe()
      }
      await follower.catchUp()
    })
    try {
      await Promise.all([0, 1, 2, 3].flatMap((writer) => [fill(writer), count(writer)]))
    } finally {
      isOver = true
      await Promise.all(following)
    }

    const allRows = await stages[0].allRows()
    assert.deepEqual(allRows, await stages[1].allRows())
    for (const follower of followers) {
      assert.deepEqual(follower.live(), allRows.filter(isThere))
      assert.equal(follower.resetCount, 0)
      for (const { key, version, doc } of follower.seen)
        assert.equal(`${key} ${doc}`, written.get(version), `${version}`)
    }
    assert.equal(allRows.length, 4 * 12 * 2 + 2)
    const counters = allRows.filter(({ key }) => key.startsWith('counter'))
    assert.equal(
      counters.reduce((sum, { doc }) => sum + Number(doc), 0),
      4 * 8,
    )
  })

  test('a reader sees all writes of one call, or none of them', async () => {
    await using both = await open()
    const { stages } = both
    let isOver = false
    const watching = stages.map(async (stage) => {
      let pageCount = 0
      for (; !isOver || pageCount === 0; pageCount++) {
        const { rows } = await stage.store.read(0, plenty)
        assert.ok(rows.length === 0 || rows.length === 4, `${rows.length} rows`)
        assert.ok(new Set(rows.map(({ doc }) => doc)).size <= 1, JSON.stringify(rows))
        await breathe()
      }
    })
    try {
      let versions: readonly number[] = [0, 0, 0, 0]
      for (let n = 0; n < 25; n++) {
        versions = await stages[n % 2]!.all(
          versions.map((seen, key) => aWrite(`k${key}`, { seen, doc: `${n}` })),
        )
      }
    } finally {
      isOver = true
      await Promise.all(watching)
    }
  })

  test('batches that touch the same rows in different orders all complete', async () => {
    await using both = await open()
    const keys = ['a', 'b', 'c', 'd', 'e']
    await both.stages[0].all(keys.map((key) => aWrite(key)))
    const answers = await Promise.all(
      twenty.map(async (n) => {
        const stage = both.stages[n % 2]!
        const rows = await stage.allRows()
        const own = n % 2 ? rows : rows.toReversed()
        return stage.store.write(own.map(({ key, version }) => aWrite(key, { seen: version, doc: `${n}` })))
      }),
    )
    // All writers saw some version of a row; for each seen version at most one write could be the next, and one always
    // was.
    const made = answers.flat().filter((version) => version !== null)
    assert.equal(new Set(made).size, made.length)
    assert.ok(made.length >= keys.length)
    const allRows = await both.stages[1].allRows()
    assert.ok(allRows.every(({ version }) => made.includes(version)))
  })
}
