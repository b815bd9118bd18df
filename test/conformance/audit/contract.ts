import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { NewAuditEntry } from '../../../src/audit/index.ts'
import { createId } from '../../../src/core/ids.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { ids, until } from '../jobs/making.ts'

/** The store keeps what operators did as it was written, newest first, by namespace, until it is old. */
export function auditContract({ open, isShared }: Candidate): void {
  test("an entry is stored as written, with a time from the store's clock", async () => {
    await using backend = await open()
    const entry = anEntry({ code: 'not_found', outcome: 'refused' })
    const before = Date.now()
    await backend.audit.write([entry])
    const [found, ...others] = await backend.audit.list({ limit: 10 })
    assert.deepEqual(found, { ...entry, at: found!.at })
    assert.ok(Number.isSafeInteger(found!.at) && Math.abs(found!.at - before) < 60_000)
    assert.deepEqual(others, [])
  })

  test('names and targets of entries keep every character', async () => {
    await using backend = await open()
    const odd = [`Ada's "laptop" \\ $1 ? :x %s -- ;`, ' spaces ', '火车 🚂 ке́й \u2028', '🚂'.repeat(191)]
    const entries = odd.map((text) =>
      anEntry({ actor: { id: text, name: text }, action: text, target: { [text]: text, count: 7.5 } }),
    )
    await backend.audit.write(entries)
    const found = await backend.audit.list({ limit: 10 })
    assert.deepEqual(found.map(({ at: _, ...entry }) => entry).reverse(), entries)
    for (const [index, text] of odd.entries()) {
      const { id } = entries[index]!
      assert.deepEqual(ids(await backend.audit.list({ limit: 10, actor: text })), [id])
      assert.deepEqual(ids(await backend.audit.list({ limit: 10, action: text })), [id])
    }
    const wide = anEntry({ target: { resource: '🚂'.repeat(4_000) } })
    await backend.audit.write([wide])
    assert.deepEqual((await backend.audit.list({ limit: 1 }))[0]?.target, wide.target)
  })

  test('an entry that is written twice keeps its first text; other entries of the call are written', async () => {
    await using backend = await open()
    const entry = anEntry()
    await backend.audit.write([entry])
    const [first] = await backend.audit.list({ limit: 10 })
    const next = anEntry()
    await backend.audit.write([{ ...entry, action: 'queue.resume', actor: { id: 'eve', name: null } }, next])
    const found = await backend.audit.list({ limit: 10 })
    assert.deepEqual(found.slice(1), [first])
    assert.deepEqual(ids(found), [next.id, entry.id])
    await backend.audit.write([])
  })

  test('entries come newest first, page by page, each once', async () => {
    await using backend = await open()
    const entries = Array.from({ length: 7 }, () => anEntry())
    await backend.audit.write(entries.toReversed())
    const newest = ids(entries).toReversed()
    assert.deepEqual(ids(await backend.audit.list({ limit: 3 })), newest.slice(0, 3))
    assert.deepEqual(ids(await backend.audit.list({ limit: 3, before: newest[2]! })), newest.slice(3, 6))
    assert.deepEqual(ids(await backend.audit.list({ limit: 3, before: newest[5]! })), newest.slice(6))
    assert.deepEqual(await backend.audit.list({ limit: 3, before: newest[6]! }), [])
  })

  test('entries are found by action, by actor and by both, only by the whole word', async () => {
    await using backend = await open()
    const [ada, eve] = [
      { id: 'ada', name: 'Ada' },
      { id: 'eve', name: null },
    ]
    const pause = anEntry({ actor: ada, action: 'queue.pause' })
    const resume = anEntry({ actor: ada, action: 'queue.resume' })
    const other = anEntry({ actor: eve, action: 'queue.pause' })
    await backend.audit.write([pause, resume, other])
    const find = async (query: { action?: string; actor?: string; before?: string }) =>
      ids(await backend.audit.list({ limit: 10, ...query }))
    assert.deepEqual(await find({ action: 'queue.pause' }), [other.id, pause.id])
    assert.deepEqual(await find({ actor: 'ada' }), [resume.id, pause.id])
    assert.deepEqual(await find({ actor: 'ada', action: 'queue.pause' }), [pause.id])
    assert.deepEqual(await find({ action: 'queue.pause', before: other.id }), [pause.id])
    assert.deepEqual(await find({ actor: 'ada', action: 'queue.resume', before: other.id }), [resume.id])
    for (const actor of ['ADA', 'ada ', 'ad', 'a%', 'Ada']) assert.deepEqual(await find({ actor }), [], actor)
    for (const action of ['queue', 'Queue.Pause', 'queue_pause'])
      assert.deepEqual(await find({ action }), [], action)
  })

  test('a namespace neither lists nor prunes the entries of another', async () => {
    await using backend = await open()
    const [mine, yours] = [backend.within(aNamespace()), backend.within(aNamespace())]
    const entry = anEntry()
    await mine.audit.write([entry])
    // The same id in another namespace is another entry.
    await yours.audit.write([{ ...entry, action: 'queue.resume' }])
    assert.deepEqual(
      [(await mine.audit.list({ limit: 10 }))[0]?.action, (await yours.audit.list({ limit: 10 }))[0]?.action],
      [entry.action, 'queue.resume'],
    )
    assert.deepEqual(await backend.audit.list({ limit: 10 }), [])
    await until(
      'the entry is old',
      async () => (await yours.audit.prune({ olderThanMs: 0, limit: 10 })) === 1,
    )
    assert.equal((await mine.audit.list({ limit: 10 })).length, 1)
  })

  test('pruning deletes entries older than the given age, at most as many as asked', async () => {
    await using backend = await open()
    const entries = Array.from({ length: 5 }, () => anEntry())
    await backend.audit.write(entries)
    assert.equal(await backend.audit.prune({ olderThanMs: 60_000, limit: 10 }), 0)
    await until(
      'the entries are old',
      async () => (await backend.audit.prune({ olderThanMs: 0, limit: 3 })) === 3,
    )
    assert.equal((await backend.audit.list({ limit: 10 })).length, 2)
    assert.equal(await backend.audit.prune({ olderThanMs: 60_000, limit: 10 }), 0)
    assert.equal(await backend.audit.prune({ olderThanMs: 0, limit: 10 }), 2)
    assert.deepEqual(await backend.audit.list({ limit: 10 }), [])
    assert.equal(await backend.audit.prune({ olderThanMs: 0, limit: 10 }), 0)
  })

  test('a closed backend refuses every call', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend.close()
    await assert.rejects(backend.audit.write([anEntry()]), { code: 'closed' })
    await assert.rejects(backend.audit.list({ limit: 1 }), { code: 'closed' })
    await assert.rejects(backend.audit.prune({ olderThanMs: 0, limit: 1 }), { code: 'closed' })
  })

  test.skipIf(!isShared)('an entry outlives the backend that wrote it', async () => {
    const namespace = aNamespace()
    const entry = anEntry()
    {
      await using backend = await open({ namespace })
      await backend.audit.write([entry])
    }
    await using backend = await open({ namespace })
    assert.deepEqual(ids(await backend.audit.list({ limit: 10 })), [entry.id])
  })
}

function anEntry(entry: Partial<NewAuditEntry> = {}): NewAuditEntry {
  return {
    id: createId(),
    actor: { id: '01k9z3v8qe0m4t9wq3rb5c7xkd', name: 'Ada' },
    action: 'queue.pause',
    target: { queue: 'mail' },
    outcome: 'done',
    code: null,
    ...entry,
  }
}
