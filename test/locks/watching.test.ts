import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createLocks, type LockStore, type Locks, type LocksOptions } from '../../src/locks/index.ts'
import { LocalNotifiers } from '../../src/storage/local-notifiers.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'

const key = { operation: 'pull', resource: 'app:1.2' }

/** Locks on a memory store, with counts of its steps. `isDeaf`: wake-ups are dropped. */
function openLocks(options: LocksOptions = {}, isDeaf = false) {
  const counts: Record<string, number> = {}
  const store = new Proxy(
    createMemoryLocks(() => Date.now()),
    {
      get(target, name: string) {
        counts[name] = (counts[name] ?? 0) + 1
        const method = Reflect.get(target, name) as (...args: unknown[]) => unknown
        return (...args: unknown[]) => Reflect.apply(method, target, args)
      },
    },
  ) as LockStore
  const notifier = new LocalNotifiers().within('default')
  const deaf = { wake: () => undefined, listen: () => () => undefined }
  const locks = createLocks({ store, notifier: isDeaf ? deaf : notifier, remoteWakeUps: false }, options)
  return { locks, counts }
}

async function granted(locks: Locks, node: string): Promise<number> {
  const answer = await locks.acquire({ ...key, node })
  assert.ok(answer.status === 'granted')
  return answer.token
}

test('a waiter keeps its position with few writes: one per third of its lease', async () => {
  const { locks, counts } = openLocks({ waiterLeaseMs: 3_000 })
  await using _locks = locks
  await granted(locks, 'a')
  await locks.acquire({ ...key, node: 'b' })
  const events = locks.watch({ ...key, node: 'b' })[Symbol.asyncIterator]()
  await events.next()
  const before = counts.keep ?? 0
  const waits = events.next()
  await new Promise((resolve) => setTimeout(resolve, 1_600))
  const writes = (counts.keep ?? 0) - before
  assert.ok(writes >= 1 && writes <= 2, `${writes} writes in half a lease`)
  await locks.evict({ ...key, node: 'b' })
  assert.equal((await waits).value.type, 'evicted')
})

test('a hand-over reads the store once, however many waiters are behind it', async () => {
  const { locks, counts } = openLocks()
  await using _locks = locks
  const token = await granted(locks, 'a')
  const streams = []
  for (let number = 0; number < 200; number++) {
    const node = `n${number}`
    await locks.acquire({ ...key, node })
    const events = locks.watch({ ...key, node })[Symbol.asyncIterator]()
    await events.next()
    streams.push(events)
  }
  const next = streams.map((events) => events.next())
  const before = counts.keep ?? 0
  await locks.release({ ...key, node: 'a', token, outcome: 'failure' })
  assert.equal((await next[0]!).value.type, 'granted')
  // Those behind hear of their new position from the wait queue they all look at, if it shows them.
  assert.deepEqual((await next[1]!).value.type, 'queued')
  assert.deepEqual((await next[1]!).value.position, 1)
  assert.ok((counts.keep ?? 0) - before <= 3, `${(counts.keep ?? 0) - before} looks`)
})

test('without wake-ups, a waiter still learns of a grant or an end within seconds', async () => {
  const { locks } = openLocks({}, true)
  await using _locks = locks
  const token = await granted(locks, 'a')
  await locks.acquire({ ...key, node: 'b' })
  await locks.acquire({ ...key, node: 'c' })
  const b = locks.watch({ ...key, node: 'b' })[Symbol.asyncIterator]()
  const c = locks.watch({ ...key, node: 'c' })[Symbol.asyncIterator]()
  await b.next()
  await c.next()
  await locks.release({ ...key, node: 'a', token, outcome: 'failure' })
  const grant = (await b.next()).value
  assert.equal(grant.type, 'granted')
  await locks.renew({ ...key, node: 'b', token: grant.token })
  await locks.release({ ...key, node: 'b', token: grant.token, outcome: 'success', result: 7 })
  let event = (await c.next()).value
  while (event.type === 'queued') event = (await c.next()).value
  assert.deepEqual([event.type, event.result], ['completed', 7])
})
