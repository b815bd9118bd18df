import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { LockKey, LockStore, WaitQueueQuery, WaitQueueSummary } from '../../../src/locks/index.ts'
import type { LocksCandidate } from '../candidates.ts'
import { clockMs, keyOf, longMs, longTimes, named, Stage } from './stage.ts'

/** Wait queues as people see them: the state of one, and lists in pages. */
export function lookingContract({ open }: LocksCandidate): void {
  test('an unused wait queue is not found', async () => {
    await using backend = await open()
    assert.equal(await backend.locks.inspect(keyOf('pull'), 10), undefined)
    assert.deepEqual(await backend.locks.list({ limit: 10 }), [])
  })

  test('a wait queue shows its holder and its waiters with their positions, and no tokens', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const began = Date.now()
    const { expiresAt } = await stage.granted('pull', 'A', { requestId: 'r1' })
    await stage.queued('pull', 'B', 1, { want: 'turn' })
    await stage.queued('pull', 'C', 2)
    const view = await stage.look('pull')
    const { holder, waiters, ...rest } = view
    assert.deepEqual(rest, {
      ...keyOf('pull'),
      revision: view.revision,
      waiterCount: 2,
      lastOutcome: null,
    })
    assert.ok(Number.isSafeInteger(view.revision) && view.revision > 0)
    assert.deepEqual(holder, {
      node: 'A',
      requestId: 'r1',
      attempt: 1,
      since: holder!.since,
      expiresAt: holder!.expiresAt,
      progress: null,
    })
    assert.ok(Math.abs(holder!.expiresAt - expiresAt) <= clockMs)
    assert.ok(Math.abs(holder!.since - began) < 60_000 && Number.isSafeInteger(holder!.since))
    assert.deepEqual(
      waiters.map(({ since, ...waiter }) => waiter),
      [
        { ...named('B'), position: 1, want: 'turn' },
        { ...named('C'), position: 2, want: 'result' },
      ],
    )
    assert.ok(waiters[0]!.since <= waiters[1]!.since)
    const first = await stage.store.inspect(keyOf('pull'), 1)
    assert.deepEqual([first!.waiters.map(({ node }) => node), first!.waiterCount], [['B'], 2])
    assert.equal((await stage.store.inspect(keyOf('pull'), 0))!.waiterCount, 2)
  })

  test('an expired lease shows no holder, also before a sweep', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { token } = await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1)
    await stage.store.shorten(keyOf('pull'), { ...named('A'), token }, 0, longTimes)
    await stage.lapsed('pull')
    const { holder, waiters, revision } = await stage.look('pull')
    assert.deepEqual([holder, waiters.map(({ node }) => node)], [null, ['B']])
    const [listed] = await stage.store.list({ limit: 10 })
    assert.deepEqual(listed, { ...keyOf('pull'), holder: null, waiterCount: 1 })
    assert.equal((await stage.look('pull')).revision, revision, 'looking changes nothing')
  })

  test('a wait queue shows how its last turn ended', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const before = Date.now()
    const a = await stage.granted('pull', 'A')
    await stage.end('pull', 'A', a.token, 'failure', { value: '"no space"' })
    const failed = (await stage.look('pull')).lastOutcome!
    assert.ok(Math.abs(failed.at - before) < 60_000)
    assert.deepEqual(failed, {
      outcome: 'failure',
      node: 'A',
      attempt: 1,
      at: failed.at,
      value: '"no space"',
    })
    const b = await stage.granted('pull', 'B')
    assert.deepEqual((await stage.look('pull')).lastOutcome, failed, 'also while the next holds')
    await stage.end('pull', 'B', b.token, 'success', { value: '{"image":1}' })
    const done = (await stage.look('pull')).lastOutcome!
    assert.deepEqual([done.outcome, done.node, done.attempt, done.value], ['success', 'B', 1, '{"image":1}'])
  })

  test('the revision rises with every change, and only then', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const key = keyOf('pull')
    const steps: readonly (readonly [changes: boolean, step: () => Promise<{ revision: number }>])[] = [
      [true, () => acquire('A')],
      [false, () => acquire('A')],
      [true, () => acquire('B')],
      [false, () => acquire('B')],
      [false, () => acquire('C', false)],
      [false, () => stage.store.keep(key, named('B'), { isStreamed: true }, longTimes)],
      [false, () => stage.store.keep(key, named('unknown'), { isStreamed: true }, longTimes)],
      [false, () => stage.end('pull', 'B', 1, 'success')],
      [true, () => stage.store.leave(key, named('B'), longTimes)],
      [false, () => stage.store.leave(key, named('B'), longTimes)],
      [true, () => acquire('C')],
      [true, () => stage.store.evict(key, named('C'), longTimes)],
    ]
    const acquire = (node: string, wait = true) =>
      stage.store.acquire(
        key,
        {
          ...named(node),
          wait,
          want: 'result',
          ttlMs: longMs,
          deadlineMs: null,
          isStreamed: false,
        },
        longTimes,
      )
    let last = 0
    for (const [index, [changes, step]] of steps.entries()) {
      const { revision } = await step()
      if (changes) assert.ok(revision > last, `step ${index} raises it`)
      else assert.equal(revision, last, `step ${index} leaves it`)
      assert.equal((await stage.look('pull')).revision, revision)
      last = revision
    }
  })

  test('a list contains the wait queues with a holder or a waiter, by operation and then resource', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const keys = ['b/1', 'a/2', 'B/1', 'a/10', 'a/Z', 'a-/1'].map(keyNamed)
    for (const key of keys) await stage.granted(key, 'A')
    await stage.queued(keys[1]!, 'W', 1)
    const over = keyNamed('a/over')
    const { token } = await stage.granted(over, 'A')
    await stage.end(over, 'A', token, 'success')

    const listed = await stage.store.list({ limit: 100 })
    assert.deepEqual(listed.map(nameOf), ['B/1', 'a/10', 'a/2', 'a/Z', 'a-/1', 'b/1'])
    assert.deepEqual(listed.filter(({ waiterCount }) => waiterCount > 0).map(nameOf), ['a/2'])
    for (const { holder } of listed) assert.equal(holder?.node, 'A')
    assert.deepEqual(await names(stage.store, { operation: 'a' }), ['a/10', 'a/2', 'a/Z'])
    assert.deepEqual(await names(stage.store, { operation: 'A' }), [])
  })

  test('pages have no gaps and no duplicates, whatever the names', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const parts = ['a', 'A', 'a ', 'ä', 'Z', '%', '_', '\\', '"', '😀', '\uffee', '{', '~']
    const keys = parts.flatMap((operation) => parts.map((resource) => ({ operation, resource })))
    for (const key of keys) await stage.granted(key, 'A')
    const seen: string[] = []
    let after: LockKey | undefined
    for (let page = 0; page < keys.length; page++) {
      const queues = await stage.store.list({ limit: 17, ...(after && { after }) })
      seen.push(...queues.map(nameOf))
      after = queues.at(-1)
      if (queues.length < 17) break
    }
    assert.equal(new Set(seen).size, seen.length, 'none twice')
    assert.deepEqual(seen.toSorted(), keys.map(nameOf).toSorted())
    const own: string[] = []
    for (let at: LockKey | undefined; own.length < parts.length; ) {
      const queues = await stage.store.list({ operation: 'ä', limit: 2, ...(at && { after: at }) })
      assert.ok(queues.length > 0, 'more is to come')
      own.push(...queues.map(nameOf))
      at = queues.at(-1)
    }
    assert.deepEqual(own.toSorted(), parts.map((resource) => `ä/${resource}`).toSorted())
  })

  test('a search finds the resources that contain the text literally', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const resources = ['100%', '100 x', 'a_b', 'aXb', 'a\\b', 'ab', 'AB', 'a*b', 'a[b]', '😀 ä', "it's"]
    for (const resource of resources) await stage.granted({ operation: 'pull', resource }, 'A')
    await stage.granted({ operation: 'a_b', resource: 'other' }, 'A')
    const found: readonly (readonly [search: string, ...resources: string[]])[] = [
      ['100%', '100%'],
      ['%', '100%'],
      ['_', 'a_b'],
      ['a_b', 'a_b'],
      ['\\', 'a\\b'],
      ['\\b', 'a\\b'],
      ['ab', 'ab'],
      ['AB', 'AB'],
      ['*', 'a*b'],
      ['[b]', 'a[b]'],
      ['.', ...[]],
      ['😀', '😀 ä'],
      [' ä', '😀 ä'],
      ['A\u0308', ...[]],
      ["'", "it's"],
      ['100', '100 x', '100%'],
      ['x ', ...[]],
    ]
    for (const [search, ...expected] of found) {
      const queues = await stage.store.list({ search, limit: 100 })
      assert.deepEqual(queues.map(({ resource }) => resource).toSorted(), expected.toSorted(), search)
    }
    const [first] = await stage.store.list({ search: '100', limit: 1 })
    const rest = await stage.store.list({ search: '100', limit: 10, after: first! })
    assert.deepEqual([first!.resource, ...rest.map(({ resource }) => resource)], ['100 x', '100%'])
    assert.deepEqual(await names(stage.store, { search: 'oth', operation: 'pull' }), [])
    assert.deepEqual(await names(stage.store, { search: 'oth', operation: 'a_b' }), ['a_b/other'])
  })
}

function keyNamed(name: string): LockKey {
  const [operation, resource] = name.split('/')
  return { operation: operation!, resource: resource! }
}

function nameOf({ operation, resource }: LockKey): string {
  return `${operation}/${resource}`
}

async function names(store: LockStore, query: Partial<WaitQueueQuery>): Promise<readonly string[]> {
  return (await store.list({ limit: 100, ...query })).map((queue: WaitQueueSummary) => nameOf(queue))
}
