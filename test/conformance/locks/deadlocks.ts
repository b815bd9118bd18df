import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createLocks } from '../../../src/locks/index.ts'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import type { LocksBackend } from './opening.ts'
import { keyOf, longTimes, named, Stage } from './stage.ts'

/** Requests that hold and wait in a circle are found, and the youngest wait ends. */
export function deadlocksContract({ open, isShared }: LocksCandidate): void {
  test('the wait graph contains the waits of holders only', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('a', 'A')
    const b = await stage.granted({ operation: 'b', resource: 'elsewhere' }, 'B')
    await stage.granted('c', 'C')
    await stage.ask({ operation: 'b', resource: 'elsewhere' }, 'A')
    await stage.ask('c', 'A')
    await stage.ask('a', 'B')
    for (const node of ['D', 'E']) await stage.ask('a', node)
    await stage.ask('a', 'A', { requestId: 'another' })

    const elsewhere = { operation: 'b', resource: 'elsewhere' }
    const found = await stage.store.findWaitingHolders([keyOf('a'), keyOf('c'), keyOf('unknown')])
    assert.deepEqual(
      found
        .map(({ seq, ...holder }) => ({ ...holder, isPlace: seq > 0 }))
        .toSorted((x, y) => (x.waitsFor.operation < y.waitsFor.operation ? -1 : 1)),
      [
        { who: named('A'), holds: keyOf('a'), token: a.token, waitsFor: elsewhere, isPlace: true },
        { who: named('A'), holds: keyOf('a'), token: a.token, waitsFor: keyOf('c'), isPlace: true },
      ],
    )
    const [there] = await stage.store.findWaitingHolders([elsewhere])
    assert.deepEqual([there?.who, there?.token, there?.waitsFor], [named('B'), b.token, keyOf('a')])
    assert.deepEqual(await stage.store.findWaitingHolders([]), [])
    await stage.store.leave(keyOf('a'), named('B'), longTimes)
    assert.deepEqual(await stage.store.findWaitingHolders([elsewhere]), [])
    assert.deepEqual(await backend.within(aNamespace()).locks.findWaitingHolders([keyOf('a')]), [])
  })

  test('a notified waiter no longer waits, and an expired lease holds nothing', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('a', 'A')
    const b = await stage.granted('b', 'B')
    await stage.ask('b', 'A')
    await stage.ask('a', 'B')
    await stage.store.shorten(keyOf('a'), { ...named('A'), token: a.token }, 0, longTimes)
    assert.deepEqual(await stage.store.findWaitingHolders([keyOf('a')]), [])
    await stage.granted('c', 'A')
    assert.equal((await stage.store.findWaitingHolders([keyOf('c')])).length, 1)
    await stage.end('b', 'B', b.token, 'success')
    assert.deepEqual(await stage.store.findWaitingHolders([keyOf('c')]), [])
  })

  test('a wait is failed only at the given position, and its waiter is notified once', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    await stage.granted('a', 'A')
    await stage.granted('b', 'B')
    for (const node of ['A', 'C']) await stage.ask('b', node)
    const [holder] = await stage.store.findWaitingHolders([keyOf('a')])
    const { seq } = holder!
    const error = JSON.stringify({ code: 'deadlock', message: 'ä' })
    const fail = (node: string, position: number) =>
      stage.store.fail(keyOf('b'), { ...named(node), seq: position }, error, longTimes)

    const before = await stage.look('b')
    for (const [node, position] of [
      ['A', seq + 1],
      ['C', seq],
      ['B', seq],
      ['unknown', seq],
    ] as const) {
      const missed = await fail(node, position)
      assert.deepEqual([missed.failed, missed.notified.changed], [false, false], `${node} at ${position}`)
    }
    const { revision: same, waiters } = await stage.look('b')
    assert.deepEqual([same, waiters], [before.revision, before.waiters])

    const { failed, notified, revision } = await fail('A', seq)
    assert.equal(failed, true)
    assert.deepEqual(notified, { requesters: [named('A')], everyone: false, changed: true })
    assert.ok(revision > before.revision)
    assert.equal((await fail('A', seq)).failed, false)
    assert.deepEqual(await stage.queue('b'), ['C'])
    assert.deepEqual(await stage.ask('b', 'A'), { status: 'ended', kind: 'failed', value: error })
    // After the notification it is a new request, with its old position.
    await stage.queued('b', 'A', 1)
    await stage.queued('b', 'C', 2)
  })

  test('of two requests that take two locks in opposite order, one gives way to the other', async () => {
    await using backend = await open()
    await using locks = createLocks(partsOf(backend))
    await crossing(locks, locks)
  })

  test.runIf(isShared)('a deadlock between two boxes on one store is broken as well', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    await using here = createLocks(partsOf(one))
    await using there = createLocks(partsOf(two))
    await crossing(here, there)
  })

  test('requests without a box take part in deadlocks, and three of them may form one', async () => {
    await using backend = await open()
    await using locks = createLocks(partsOf(backend))
    const stage = new Stage(backend)
    const ask = (node: string, operation: string) => locks.acquire({ ...keyOf(operation), node })
    for (const node of ['a', 'b', 'c']) assert.equal((await ask(node, node)).status, 'granted')
    assert.equal((await ask('a', 'b')).status, 'queued')
    assert.equal((await ask('b', 'c')).status, 'queued')
    const events = locks.watch({ ...keyOf('a'), node: 'c' })
    // The youngest wait is known only once the clock has moved.
    await stage.pass(5)
    assert.equal((await ask('c', 'a')).status, 'queued')
    const began = performance.now()
    for await (const event of events) {
      if (event.type === 'queued') continue
      assert.deepEqual([event.type, event.type === 'failed' && event.error.code], ['failed', 'deadlock'])
      break
    }
    assert.ok(performance.now() - began < 5_000)
    for (const node of ['a', 'b'])
      assert.equal((await ask(node, node === 'a' ? 'b' : 'c')).status, 'queued', `${node} waits on`)
  })
}

type Locks = ReturnType<typeof createLocks>

async function crossing(here: Locks, there: Locks): Promise<void> {
  const [a, b] = await Promise.all([
    here.hold('deploy', 'eu-1', { node: 'A' }),
    there.hold('deploy', 'eu-2', { node: 'B' }),
  ])
  const outcomes = await Promise.allSettled([
    failing(a.hold('deploy', 'eu-2'), a),
    failing(b.hold('deploy', 'eu-1'), b),
  ])
  const [first, second] = outcomes
  const [won, lost] = first.status === 'fulfilled' ? [first, second] : [second, first]
  assert.equal(won.status, 'fulfilled', won.status === 'rejected' ? String(won.reason) : '')
  assert.equal(lost.status, 'rejected')
  assert.equal(lost.reason.code, 'conflict')
  assert.deepEqual(lost.reason.details, { reason: 'deadlock' })
  if (won.status === 'fulfilled') await won.value.release()

  /** A waiter that is failed releases the locks it holds. */
  async function failing(inner: Promise<Held>, outer: Held): Promise<Held> {
    return inner.catch(async (error: unknown) => {
      await outer.release({ outcome: 'failure' })
      throw error
    })
  }
}

type Held = Awaited<ReturnType<Locks['hold']>>

function partsOf({ locks, notifier, traits }: LocksBackend): Parameters<typeof createLocks>[0] {
  return { store: locks, notifier, remoteWakeUps: traits.remoteWakeUps }
}
