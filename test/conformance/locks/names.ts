import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { LockKey } from '../../../src/locks/index.ts'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import { keyOf, longTimes, named, Stage } from './stage.ts'

/** Names are any text; two that differ in any character are different, and no name affects another. */
export function namesContract({ open, isShared }: LocksCandidate): void {
  test('wait queues whose names look alike are different wait queues', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    for (const [index, key] of keys.entries()) await stage.granted(key, `holder${index}`)
    for (const [index, key] of keys.entries()) await stage.queued(key, `waiter${index}`, 1)
    for (const [index, key] of keys.entries()) {
      const { operation, resource, holder, waiters } = await stage.look(key)
      assert.deepEqual({ operation, resource }, key)
      assert.equal(holder?.node, `holder${index}`)
      assert.deepEqual(
        waiters.map(({ node }) => node),
        [`waiter${index}`],
      )
    }
    const listed = await stage.store.list({ limit: keys.length + 1 })
    assert.deepEqual(listed.map(textOf).toSorted(), keys.map(textOf).toSorted())
    for (const [index, key] of keys.entries()) {
      const { token } = await stage.granted(key, `holder${index}`)
      const { released } = await stage.end(key, `holder${index}`, token, 'failure')
      assert.deepEqual(released, { next: named(`waiter${index}`) })
    }
  })

  test('nodes and requests whose names look alike are different', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const [first, ...others] = requesters
    const { token } = await stage.granted('pull', first!.node, first)
    for (const [index, who] of others.entries()) await stage.queued('pull', who.node, index + 1, who)
    for (const [index, who] of others.entries()) await stage.queued('pull', who.node, index + 1, who)
    assert.equal((await stage.granted('pull', first!.node, first)).token, token)
    const { waiters } = await stage.look('pull')
    assert.deepEqual(
      waiters.map(({ node, requestId }) => ({ node, requestId })),
      others,
    )
    for (const who of others)
      assert.equal((await stage.store.leave(keyOf('pull'), who, longTimes)).left, true)
    assert.deepEqual(await stage.queue('pull'), [])
  })

  test('names of the greatest length are accepted, also when only their last characters differ', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    for (const character of ['r', 'ß', '😀']) {
      const [operation, resource] = [character.repeat(191), character.repeat(1_023)]
      const [one, two] = [`${resource}1`, `${resource}2`].map((name) => ({ operation, resource: name }))
      const who = { node: operation, requestId: operation }
      const { token } = await stage.granted(one!, operation)
      await stage.granted(two!, operation)
      await stage.queued(one!, 'B', 1)
      assert.deepEqual((await stage.look(one!)).resource, `${resource}1`)
      const { items } = { items: await stage.store.list({ operation, limit: 10 }) }
      assert.deepEqual(
        items.map((item) => item.resource),
        [`${resource}1`, `${resource}2`],
      )
      const end = { outcome: 'failure', value: null, terminal: false } as const
      const { released } = await stage.store.release(one!, { ...who, token }, end, longTimes)
      assert.deepEqual(released, { next: named('B') })
    }
  })

  test('wait queues, lists, sweeps and wake-ups stay inside their namespace', async () => {
    await using backend = await open()
    const first = aNamespace()
    const names = [first, `${first}:a`, `${first}:A`]
    const spaces = names.map((name) => ({ ...backend.within(name), name }))
    const heard: string[] = []
    for (const { notifier, name } of spaces) notifier.listen(['topic'], () => void heard.push(name))
    for (const space of spaces) {
      const stage = new Stage(space)
      await stage.granted('pull', 'A', { ttlMs: 1 })
      await stage.lapsed('pull')
      await stage.granted('deploy', space.name)
    }
    for (const space of spaces) {
      const stage = new Stage(space)
      assert.equal((await stage.look('deploy')).holder?.node, space.name)
      const listed = await stage.store.list({ operation: 'deploy', limit: 10 })
      assert.deepEqual(
        listed.map(({ holder }) => holder?.node),
        [space.name],
      )
      const swept = await stage.store.sweep(100, longTimes)
      assert.deepEqual(
        swept.map(({ key, notified }) => ({ key, requesters: notified.requesters })),
        [{ key: keyOf('pull'), requesters: [named('A')] }],
      )
      heard.length = 0
      space.notifier.wake('topic')
      // A notifier may deliver in a later turn.
      await new Promise((resolve) => setImmediate(resolve))
      assert.deepEqual(heard, [space.name])
    }
    assert.equal(await backend.locks.inspect(keyOf('deploy'), 1), undefined)
  })

  test.runIf(isShared)('all backends and views of one namespace see the same wait queues', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open()
    const { token } = await new Stage(one).granted('pull', 'A')
    assert.equal((await new Stage(one.within(namespace)).granted('pull', 'A')).token, token)
    assert.equal((await new Stage(two.within(namespace)).granted('pull', 'A')).token, token)
    assert.equal(await two.locks.inspect(keyOf('pull'), 1), undefined)
  })
}

const keys: readonly LockKey[] = [
  ['a:b', 'c'],
  ['a', 'b:c'],
  ['a/b', 'c'],
  ['a', 'b/c'],
  ['a', 'b\\c'],
  ['a","b', 'c'],
  ['a', 'b","c'],
  ['a', 'b'],
  ['A', 'b'],
  ['a', 'B'],
  ['a ', 'b'],
  ['a', 'b '],
  ['a', ' b'],
  ['a', ' '],
  ['a', '  '],
  ['ä', 'b'],
  ['a\u0308', 'b'],
  ['ß', 'b'],
  ['ss', 'b'],
  ['a', 'ｂ'],
  ['{x}', 'y'],
  ['x', '{y}'],
  ['{x}y', 'z'],
  ['{x', '}y'],
  ['%3A', ':'],
  [':', '%3A'],
  ['a%3Ab', 'c'],
  ['a', 'b%3Ac'],
  ['%', '_'],
  ['_', '%'],
  ['*', '?'],
  ['a*', '[a-z]'],
  ['🙂', '🙃'],
  ['🙃', '🙂'],
  ['👩‍👩‍👧', '👩'],
  ['1:a', '1:b'],
  ['1:a1', ':b'],
  ['__proto__', 'constructor'],
  ["'; DROP TABLE lock_queue; --", 'x'],
  ["return redis.call('FLUSHALL')", 'x'],
  ['\u2028', '\u200b'],
  ['0', '00'],
  ['null', 'undefined'],
].map(([operation, resource]) => ({ operation: operation!, resource: resource! }))

const requesters = [
  ['a:b', 'c'],
  ['a', 'b:c'],
  ['a', 'c'],
  ['A', 'c'],
  ['a', 'C'],
  ['a ', 'c'],
  ['a', 'c '],
  ['ä', 'c'],
  ['a\u0308', 'c'],
  ['{a}', 'c'],
  ['%', '_'],
  ['_', '%'],
  ['🙂', '🙃'],
  ['🙃', '🙂'],
  ['1:a', '1:b'],
  ['1:a1', ':b'],
  ['__proto__', '__proto__'],
  ['a\\', 'c'],
  ['a', '\\c'],
].map(([node, requestId]) => ({ node: node!, requestId: requestId! }))

function textOf({ operation, resource }: LockKey): string {
  return JSON.stringify([operation, resource])
}
