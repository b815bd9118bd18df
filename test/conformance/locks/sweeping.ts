import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { LockKey, LockStore } from '../../../src/locks/index.ts'
import type { LockTimes } from '../../../src/locks/rules/index.ts'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import { keyOf, longTimes, named, Stage, shortMs, until } from './stage.ts'

/** Long enough for all to join the queue before the first of their spans ends, also on a busy machine. */
const spanMs = 2_000

/** Due changes happen without requests: any process may sweep, any number of times. */
export function sweepingContract({ open, isShared }: LocksCandidate): void {
  test('a sweep ends expired leases, grants the next waiter and notifies those affected', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B', { deadlineMs: spanMs })
    await stage.ask('pull', 'C')
    await stage.ask('pull', 'D', { times: { waiterLeaseMs: spanMs } })
    assert.deepEqual(await swept(stage.store, keyOf('pull')), [])
    await stage.pass(spanMs)
    assert.deepEqual((await swept(stage.store, keyOf('pull'))).toSorted(), ['B', 'D'])
    assert.deepEqual(await stage.queue('pull'), ['C'])
    assert.deepEqual(await swept(stage.store, keyOf('pull')), [], 'once')

    await stage.store.shorten(keyOf('pull'), { ...named('A'), token: a.token }, 0, longTimes)
    assert.deepEqual(await swept(stage.store, keyOf('pull')), ['A', 'C'])
    assert.equal((await stage.look('pull')).holder?.node, 'C')
    assert.deepEqual(await swept(stage.store, keyOf('pull')), [], 'once')
    assert.deepEqual(await stage.ask('pull', 'B'), { status: 'ended', kind: 'timeout', value: null })
    await stage.queued('pull', 'D', 1)
  })

  test('a sweep takes back unused grants, and grants the next waiter after a delay', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const times = { ...longTimes, takeUpMs: shortMs, lockDelayMs: shortMs }
    const a = await stage.granted('pull', 'A')
    for (const node of ['dead', 'B']) await stage.ask('pull', node)
    const end = { outcome: 'failure', value: null, terminal: false } as const
    await stage.store.release(keyOf('pull'), { ...named('A'), token: a.token }, end, times)
    await stage.pass(shortMs)
    assert.deepEqual(await swept(stage.store, keyOf('pull')), ['dead', 'B'])

    const { token } = await stage.granted('deploy', 'A')
    await stage.ask('deploy', 'C')
    await stage.store.shorten(keyOf('deploy'), { ...named('A'), token }, 0, longTimes)
    await stage.lapsed('deploy')
    const notified: string[] = []
    await until('C is called', async () => {
      notified.push(...(await swept(stage.store, keyOf('deploy'), times)))
      return notified.includes('C')
    })
    assert.deepEqual(notified, ['A', 'C'])
  })

  test('a turn with an expired lease differs from an unused one and from one that an operator ended', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const lapses = async (operation: string) =>
      (await stage.store.sweep(100, longTimes))
        .filter(({ key }) => key.operation === operation)
        .map(({ notified }) => notified.lapsed)
    const times = { ...longTimes, takeUpMs: shortMs }
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'dead')
    const end = { outcome: 'failure', value: null, terminal: false } as const
    await stage.store.release(keyOf('pull'), { ...named('A'), token: a.token }, end, times)
    await stage.pass(shortMs)
    assert.deepEqual(await lapses('pull'), [undefined])

    const b = await stage.granted('pull', 'B')
    await stage.store.shorten(keyOf('pull'), { ...named('B'), token: b.token }, 0, longTimes)
    assert.deepEqual(await lapses('pull'), [true])
    assert.deepEqual(await lapses('pull'), [], 'once')

    await stage.granted('pull', 'C', { ttlMs: shortMs })
    await stage.lapsed('pull')
    const late = await stage.store.leave(keyOf('pull'), named('D'), longTimes)
    assert.equal(late.notified.lapsed, true, 'by any step that finds it')
    await stage.granted('pull', 'D')
    const evicted = await stage.store.evict(keyOf('pull'), named('D'), longTimes)
    assert.equal(evicted.notified.lapsed, undefined)
  })

  test('a sweep forgets old wait queues, and nothing else', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const keeping = { ...longTimes, keepMs: shortMs }
    const end = { outcome: 'success', value: '1', terminal: false } as const
    const [over, notified, held] = ['over', 'notified', 'held'].map(keyOf) as [LockKey, LockKey, LockKey]
    for (const [key, times] of [
      [over, keeping],
      [notified, longTimes],
    ] as const) {
      const { token } = await stage.granted(key, 'A')
      await stage.ask(key, 'B')
      await stage.store.release(key, { ...named('A'), token }, end, times)
    }
    await stage.granted(held, 'A')
    const left = await stage.granted(keyOf('left'), 'A')
    await stage.end('left', 'A', left.token, 'success')
    await stage.store.sweep(100, longTimes)
    assert.ok(await stage.store.inspect(keyOf('left'), 1), 'how it ended is kept for its time')
    await stage.pass(shortMs)
    await until('what is over is forgotten', async () => {
      await stage.store.sweep(100, keeping)
      return (await stage.store.inspect(over, 1)) === undefined
    })
    assert.deepEqual(await stage.ask(notified, 'B'), { status: 'ended', kind: 'completed', value: '1' })
    assert.equal((await stage.look(held)).holder?.node, 'A')
    await stage.granted(over, 'B')
  })

  test('tokens and revisions still rise after a sweep has forgotten the wait queue', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const soon = { ...longTimes, keepMs: 5 }
    let [token, revision] = [0, 0]
    for (let turn = 0; turn < 5; turn++) {
      const granted = await stage.granted('pull', 'A')
      assert.ok(granted.token > token, `token ${granted.token} after ${token}`)
      token = granted.token
      const end = { outcome: 'success', value: null, terminal: false } as const
      const answer = await stage.store.release(keyOf('pull'), { ...named('A'), token }, end, soon)
      assert.ok(answer.revision > revision)
      revision = answer.revision
      await until('the wait queue is forgotten', async () => {
        await stage.store.sweep(100, soon)
        return (await stage.store.inspect(keyOf('pull'), 1)) === undefined
      })
    }
  })

  test('a sweep stops at its limit of wait queues, and the next sweep continues', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const keys = Array.from({ length: 7 }, (_, n) => ({ operation: 'pull', resource: `${n}` }))
    for (const key of keys) await stage.granted(key, 'A', { ttlMs: 1 })
    for (const key of keys) await stage.lapsed(key)
    const notified: string[] = []
    await until('all are swept', async () => {
      const queues = await stage.store.sweep(3, longTimes)
      assert.ok(new Set(queues.map(({ key }) => key.resource)).size <= 3)
      notified.push(...queues.map(({ key }) => key.resource))
      return notified.length >= keys.length
    })
    assert.deepEqual(notified.toSorted(), keys.map(({ resource }) => resource).toSorted())
  })

  test.runIf(isShared)('when several backends sweep at once, each waiter is notified once', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    const stage = new Stage(one)
    const keys = Array.from({ length: 40 }, (_, n) => ({ operation: 'pull', resource: `${n}` }))
    await Promise.all(
      keys.map(async (key) => {
        await stage.granted(key, 'A', { ttlMs: spanMs })
        await stage.ask(key, 'B')
        await stage.ask(key, 'C', { deadlineMs: spanMs })
      }),
    )
    // Started after all of them, so that it ends after all of them.
    await stage.pass(spanMs)
    for (const key of keys) await stage.lapsed(key)
    const notified: string[] = []
    const sweep = async ({ locks }: { readonly locks: LockStore }) => {
      for (const { key, notified: whom } of await locks.sweep(100, longTimes))
        notified.push(...whom.requesters.map(({ node }) => `${key.resource} ${node}`))
    }
    await Promise.all([one, two, one, two].map(sweep))
    await sweep(one)
    const expected = keys.flatMap(({ resource }) => ['A', 'B', 'C'].map((node) => `${resource} ${node}`))
    assert.deepEqual(notified.toSorted(), expected.toSorted())
    for (const key of keys) {
      const { holder, waiterCount } = await stage.look(key)
      assert.deepEqual([holder?.node, holder?.attempt, waiterCount], ['B', 2, 0])
    }
  })
}

/** Sweeps once. Returns the notified requests of this wait queue, in order. */
async function swept(
  store: LockStore,
  { operation }: LockKey,
  times: LockTimes = longTimes,
): Promise<readonly string[]> {
  const queues = await store.sweep(100, times)
  const own = queues.filter(({ key }) => key.operation === operation)
  return own.flatMap(({ notified }) => notified.requesters.map(({ node }) => node))
}
