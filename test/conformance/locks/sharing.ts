import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createLocks } from '../../../src/locks/index.ts'
import { requesterTopic, wakeFor } from '../../../src/locks/lock-topics.ts'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import type { LocksBackend } from './opening.ts'
import { keyOf, longTimes, named, Stage, until } from './stage.ts'

/** Several backends on one store behave as one, and a reopened store continues where it was. */
export function sharingContract({ open, isShared }: LocksCandidate): void {
  const shared = test.runIf(isShared)

  shared('two backends hand over to each other, and each answer names the notified requests', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    const [here, there] = [new Stage(one), new Stage(two)]
    const a = await here.granted('pull', 'A')
    await there.queued('pull', 'B', 1)
    await here.queued('pull', 'C', 2)
    const first = await here.end('pull', 'A', a.token, 'failure')
    assert.deepEqual(first.notified.requesters, [named('B')])
    const b = await there.granted('pull', 'B')
    const second = await there.end('pull', 'B', b.token, 'failure')
    assert.deepEqual(second.notified.requesters, [named('C')])
    const c = await here.granted('pull', 'C')
    assert.ok(a.token < b.token && b.token < c.token)
    assert.equal((await there.end('pull', 'C', c.token, 'success')).released?.next, null)
    assert.deepEqual(await here.queue('pull'), await there.queue('pull'))
  })

  shared('a wake-up reaches the other backend where the engine has wake-ups', async ({ skip }) => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    if (!two.traits.remoteWakeUps) skip('wake-ups do not reach other backends here: remoteWakeUps is false')
    const [here, there] = [new Stage(one), new Stage(two)]
    const a = await here.granted('pull', 'A')
    await there.queued('pull', 'B', 1)
    let wakeUps = 0
    const unlisten = two.notifier.listen([requesterTopic(keyOf('pull'), named('B'))], () => void wakeUps++)
    await until('the notifier is heard', async () => {
      // The listener may not be connected yet. A wake-up is a hint, so the test repeats it until it arrives. It follows
      // a commit, as every wake-up does: SQLite's other processes see nothing else.
      const holder = { ...named('A'), token: a.token }
      await one.locks.renew(keyOf('pull'), holder, { ttlMs: 30_000, progress: undefined }, longTimes)
      one.notifier.wake(requesterTopic(keyOf('pull'), named('B')))
      return wakeUps > 0
    })
    wakeUps = 0
    const { notified } = await here.end('pull', 'A', a.token, 'failure')
    wakeFor(one.notifier, keyOf('pull'), notified)
    await until('the grant is heard', async () => wakeUps > 0)
    await there.granted('pull', 'B')
    unlisten()
  })

  shared('a waiter at one server is granted when the holder releases at another', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = await open({ namespace })
    await using here = createLocks(partsOf(one))
    await using there = createLocks(partsOf(two))
    const first = await here.hold('deploy', 'eu-1', { node: 'A' })
    const second = there.hold('deploy', 'eu-1', { node: 'B' })
    await until('B waits', async () => (await here.inspect(deploy)).waiterCount === 1)
    await first[Symbol.asyncDispose]()
    const held = await second
    assert.ok(held.token > first.token)
    assert.equal((await here.inspect(deploy)).holder?.node, 'B')
    await held[Symbol.asyncDispose]()
  })

  shared('tokens rise whichever backend grants, also after a sweep and a reopening', async () => {
    const namespace = aNamespace()
    const tokens: number[] = []
    for (let opening = 0; opening < 3; opening++) {
      await using one = await open({ namespace })
      await using two = await open({ namespace })
      for (const backend of [one, two, one, two]) {
        const stage = new Stage(backend)
        const { token } = await stage.granted('pull', 'A')
        tokens.push(token)
        await stage.end('pull', 'A', token, 'success')
        await stage.store.sweep(100, { ...longTimes, keepMs: 0 })
      }
    }
    assert.deepEqual(
      tokens,
      tokens.toSorted((a, b) => a - b),
    )
    assert.equal(new Set(tokens).size, tokens.length)
  })

  shared('a reopened store keeps holders, waiters and results', async () => {
    const namespace = aNamespace()
    let token = 0
    {
      await using backend = await open({ namespace })
      const stage = new Stage(backend)
      token = (await stage.granted('pull', 'A')).token
      for (const node of ['B', 'C']) await stage.ask('pull', node)
      const done = await stage.granted('build', 'A')
      await stage.ask('build', 'B')
      await stage.end('build', 'A', done.token, 'success')
    }
    await using backend = await open({ namespace })
    const stage = new Stage(backend)
    assert.equal((await stage.granted('pull', 'A')).token, token)
    assert.deepEqual(await stage.queue('pull'), ['B', 'C'])
    assert.deepEqual(await stage.ask('build', 'B'), {
      status: 'ended',
      kind: 'completed',
      value: '"success"',
    })
    assert.deepEqual((await stage.end('pull', 'A', token, 'failure')).released, { next: named('B') })
  })

  test('a closed backend refuses every call on locks', async () => {
    const backend = await open({ namespace: aNamespace() })
    const stage = new Stage(backend)
    await stage.granted('pull', 'A')
    await backend[Symbol.asyncDispose]()
    await assert.rejects(stage.ask('pull', 'B'), { code: 'closed' })
    await assert.rejects(stage.store.sweep(10, longTimes), { code: 'closed' })
    await assert.rejects(stage.store.inspect(keyOf('pull'), 1), { code: 'closed' })
  })
}

const deploy = { operation: 'deploy', resource: 'eu-1' }

function partsOf({ locks, notifier, traits }: LocksBackend): Parameters<typeof createLocks>[0] {
  return { store: locks, notifier, remoteWakeUps: traits.remoteWakeUps }
}
