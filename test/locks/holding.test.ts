import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  createLocks,
  type LockEvent,
  type LockStore,
  type Locks,
  type LocksOptions,
} from '../../src/locks/index.ts'
import { LocalNotifiers } from '../../src/storage/local-notifiers.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'
import { inGrowingLeases } from '../support/spans.ts'

// The methods of locks on the memory store, in real time with short leases.

function openLocks(options?: LocksOptions, store: LockStore = createMemoryLocks(() => Date.now())): Locks {
  return createLocks(
    { store, notifier: new LocalNotifiers().within('default'), remoteWakeUps: true },
    options,
  )
}

test('ten nodes want one image: one pulls, nine find it there', async () => {
  await using locks = openLocks()
  let image: string | undefined
  let pulls = 0
  const nodes = Array.from({ length: 10 }, (_, number) => `node-${number}`)
  const images = await Promise.all(
    nodes.map((node) =>
      locks.singleFlight('pull', 'app:1.2', {
        node,
        check: () => image,
        run: async () => {
          pulls++
          await new Promise((resolve) => setTimeout(resolve, 30))
          image = 'sha256:1'
          return image
        },
      }),
    ),
  )
  assert.deepEqual(new Set(images), new Set(['sha256:1']))
  assert.equal(pulls, 1)
})

test('when the first node fails the next takes over, and the others learn of its success', async () => {
  await using locks = openLocks()
  let image: string | undefined
  const tried: string[] = []
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'c'].map((node) =>
      locks.singleFlight('pull', 'app:1.2', {
        node,
        check: () => image,
        run: async () => {
          tried.push(node)
          await new Promise((resolve) => setTimeout(resolve, 10))
          if (tried.length === 1) throw new Error('no space left')
          image = 'sha256:1'
          return image
        },
      }),
    ),
  )
  assert.deepEqual(tried, ['a', 'b'])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'fulfilled', 'fulfilled'],
  )
})

test('a terminal error ends the wait of every waiter', async () => {
  await using locks = openLocks()
  let runs = 0
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'c'].map((node) =>
      locks.singleFlight('pull', 'nowhere', {
        node,
        check: () => undefined,
        run: async () => {
          runs++
          await new Promise((resolve) => setTimeout(resolve, 10))
          throw Object.assign(new Error('no such image'), { terminal: true })
        },
      }),
    ),
  )
  assert.equal(runs, 1)
  assert.ok(outcomes.every(({ status }) => status === 'rejected'))
})

test('a held lock is a fair mutex: in order, one at a time, with rising tokens', async () => {
  await using locks = openLocks()
  const order: number[] = []
  const tokens: number[] = []
  let inside = 0
  await Promise.all(
    [0, 1, 2, 3, 4].map(async (number) => {
      await using held = await locks.hold('deploy', 'eu-1', { node: `n${number}` })
      assert.equal(++inside, 1)
      order.push(number)
      tokens.push(held.token)
      await new Promise((resolve) => setTimeout(resolve, 5))
      inside--
    }),
  )
  assert.deepEqual(order, [0, 1, 2, 3, 4])
  assert.deepEqual(
    tokens,
    [...tokens].sort((a, b) => a - b),
  )
})

test('a held lock is renewed well past its first lease', async () => {
  await inGrowingLeases(150, async (ttlMs) => {
    await using locks = openLocks()
    const held = await locks.hold('deploy', 'eu-1', { node: 'a', ttlMs })
    await new Promise((resolve) => setTimeout(resolve, 3.3 * ttlMs))
    const { holder } = await locks.inspect({ operation: 'deploy', resource: 'eu-1' })
    assert.deepEqual([held.signal.aborted, holder?.node], [false, 'a'])
    await held.release()
  })
}, 60_000)

test('a lock that is taken away aborts its signal', async () => {
  await inGrowingLeases(300, async (ttlMs) => {
    await using locks = openLocks()
    const held = await locks.hold('deploy', 'eu-1', { node: 'a', ttlMs, requestId: 'r' })
    const lost = new Promise((resolve) => held.signal.addEventListener('abort', resolve))
    await locks.evict({ operation: 'deploy', resource: 'eu-1', node: 'a', requestId: 'r' })
    await lost
    await assert.rejects(held.release(), { code: 'lease_lost' })
  })
}, 60_000)

test('a caller can abort its wait, which frees its position in the wait queue', async () => {
  await using locks = openLocks()
  await using _held = await locks.hold('deploy', 'eu-1', { node: 'a' })
  const giveUp = new AbortController()
  const waiting = locks.hold('deploy', 'eu-1', { node: 'b', signal: giveUp.signal })
  while ((await locks.inspect({ operation: 'deploy', resource: 'eu-1' })).waiterCount === 0)
    await new Promise((resolve) => setTimeout(resolve, 5))
  giveUp.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  assert.equal((await locks.inspect({ operation: 'deploy', resource: 'eu-1' })).waiterCount, 0)
})

test('a waiter that froze while its grant expired joins the wait queue again', async () => {
  const store = createMemoryLocks(() => Date.now())
  const awake = Promise.withResolvers<void>()
  let isAsleep = false
  const keep: LockStore['keep'] = async (...args) => {
    if (isAsleep) await awake.promise
    return store.keep(...args)
  }
  const deadlines: (number | null)[] = []
  const acquire: LockStore['acquire'] = (key, ask, times) => {
    if (ask.node === 'b') deadlines.push(ask.deadlineMs)
    return store.acquire(key, ask, times)
  }
  const drowsy = new Proxy(store, {
    get: (target, name) =>
      Reflect.get(name === 'keep' || name === 'acquire' ? { keep, acquire } : target, name),
  })
  await using locks = openLocks({ streamedTakeUpMs: 20 }, drowsy)
  const key = { operation: 'deploy', resource: 'eu-1' }
  const first = await locks.hold('deploy', 'eu-1', { node: 'a' })
  const waits = locks.hold('deploy', 'eu-1', { node: 'b', deadlineMs: '1m' })
  while ((await locks.inspect(key)).waiterCount === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  isAsleep = true
  await first.release({ outcome: 'failure' })
  // Granted to b, which does not take it up.
  let answer = await locks.acquire({ ...key, node: 'c' })
  while (answer.status !== 'granted') {
    await new Promise((resolve) => setTimeout(resolve, 5))
    answer = await locks.acquire({ ...key, node: 'c' })
  }
  isAsleep = false
  awake.resolve()
  while ((await locks.inspect(key)).waiterCount === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  await locks.release({ ...key, node: 'c', token: answer.token, outcome: 'failure' })
  await using held = await waits
  assert.ok(held.token > answer.token)
  const [early, late] = deadlines
  assert.equal(deadlines.length, 2)
  assert.ok(early! > 59_000 && late! <= early! - 20, 'it has waited for a while already')
})

test('a deadline ends a wait with a time-out', async () => {
  await using locks = openLocks()
  await using _held = await locks.hold('deploy', 'eu-1', { node: 'a' })
  await assert.rejects(locks.hold('deploy', 'eu-1', { node: 'b', deadlineMs: 50 }), { code: 'timeout' })
})

test('an observer sees the wait queue move, with rising ids', async () => {
  await using locks = openLocks()
  const over = new AbortController()
  const seen: LockEvent[] = []
  const key = { operation: 'pull', resource: 'x' }
  const watching = (async () => {
    for await (const event of locks.watch({ ...key, signal: over.signal })) {
      seen.push(event)
      if (event.type === 'completed') return
    }
  })()
  while (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(seen[0]!.type, 'reset')
  const held = await locks.hold('pull', 'x', { node: 'a' })
  await held.progress({ percent: 50 })
  while (!seen.some(({ type }) => type === 'progress')) await new Promise((resolve) => setTimeout(resolve, 5))
  await held.release({ result: 'done' })
  await watching
  const ids = seen.map(({ id }) => id)
  assert.deepEqual(
    ids,
    [...new Set(ids)].sort((a, b) => a - b),
  )
  assert.deepEqual(
    seen.map(({ type }) => type).filter((type) => type !== 'queued'),
    ['reset', 'granted', 'progress', 'completed'],
  )
})

test('an invalid option is refused by name, and nothing is written', async () => {
  await using locks = openLocks()
  const ask = { operation: 'pull', resource: 'x', node: 'a' }
  await assert.rejects(locks.acquire({ ...ask, ttlMs: 1 }), { code: 'invalid_argument', message: /ttlMs/ })
  await assert.rejects(locks.acquire({ ...ask, operation: '' }), { code: 'invalid_argument' })
  await assert.rejects(locks.acquire({ ...ask, nope: 1 } as never), {
    code: 'invalid_argument',
    message: /nope/,
  })
  await assert.rejects(locks.release({ ...ask, token: 1, outcome: 'success' }), { code: 'lease_lost' })
  assert.deepEqual((await locks.list()).items, [])
})

test('without multi-node mode a caller that finds the lock busy is refused and not queued', async () => {
  await using locks = openLocks({ multiNode: false })
  const key = { operation: 'pull', resource: 'x' }
  await locks.acquire({ ...key, node: 'a' })
  const answer = await locks.acquire({ ...key, node: 'b' })
  assert.equal(answer.status, 'refused')
  assert.equal((await locks.inspect(key)).waiterCount, 0)
})

/** Two nodes of one process want one lock; what the store is asked after the release is noted. */
async function handOver(options: LocksOptions, renew: (store: LockStore) => LockStore['renew']) {
  const store = createMemoryLocks(() => Date.now())
  const asked: string[] = []
  const noted = new Proxy(store, {
    get(target, name: keyof LockStore) {
      const method = (name === 'renew' ? renew(target) : target[name]) as (...args: unknown[]) => unknown
      return (...args: unknown[]) => {
        asked.push(name)
        return method(...args)
      }
    },
  })
  const locks = openLocks(options, noted)
  const first = await locks.hold('deploy', 'eu-1', { node: 'a' })
  const waiting = locks.hold('deploy', 'eu-1', { node: 'b' })
  waiting.catch(() => undefined)
  while ((await locks.inspect({ operation: 'deploy', resource: 'eu-1' })).waiterCount === 0);
  await until(() => asked.includes('keep'))
  asked.length = 0
  await first.release()
  return { locks, waiting, asked }
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 1))
}

test('a release hands its grant to a waiter of the same process, which asks nothing but takes it up', async () => {
  const { locks, waiting, asked } = await handOver({}, (store) => store.renew)
  await using _ = locks
  const second = await waiting
  assert.ok(!asked.includes('keep'), asked.join())
  assert.deepEqual(
    asked.filter((name) => name === 'renew'),
    ['renew'],
  )
  const { holder } = await locks.inspect({ operation: 'deploy', resource: 'eu-1' })
  assert.equal(holder?.node, 'b')
  assert.ok(holder.expiresAt > Date.now() + 20_000)
  assert.equal(second.signal.aborted, false)
  await second.release()
})

test('nobody holds a lock before its grant is taken up: the event loop may stand still for most of `ttlMs`', async () => {
  let takeUp = () => {}
  const isAsked = new Promise<void>((resolve) => {
    takeUp = resolve
  })
  const goesOn = Promise.withResolvers<void>()
  const slow =
    (store: LockStore): LockStore['renew'] =>
    async (...args) => {
      takeUp()
      await goesOn.promise
      return store.renew(...args)
    }
  const { locks, waiting } = await handOver({ takeUpMs: 300, streamedTakeUpMs: 200 }, slow)
  await using _ = locks
  let isHeld = false
  const held = waiting.then((lock) => {
    isHeld = true
    return lock
  })
  await isAsked
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(isHeld, false)
  goesOn.resolve()
  const lock = await held
  const heldUntil = performance.now() + 600
  while (performance.now() < heldUntil);
  const { holder } = await locks.inspect({ operation: 'deploy', resource: 'eu-1' })
  assert.equal(holder?.node, 'b')
  assert.deepEqual(await lock.release(), { next: null })
})

test('a grant that its waiter cannot take up is not held', async () => {
  const away = () => () => Promise.reject(new Error('away'))
  const { locks, waiting } = await handOver({ takeUpMs: 300, streamedTakeUpMs: 200 }, away)
  await using _ = locks
  await assert.rejects(waiting, /away/)
})
