import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, test } from 'vitest'
import type { LockStore } from '../../../src/locks/index.ts'
import { createMemoryLocks } from '../../../src/storage/memory/locks.ts'
import { checkLocks } from './lock-checker.ts'
import { checkedHistory, historyTimes, recordLocks } from './lock-history.ts'
import type { LockDoor } from './lock-recorder.ts'
import { takeStep } from './lock-step.ts'

/** A door to a store in this process, whose answers take a while, as over a wire. */
function doorTo(store: LockStore): LockDoor {
  return {
    async ask(queue, call, sent) {
      sent()
      await sleep(Math.random() * 3)
      const answer = await takeStep(store, queue, call, historyTimes)
      await sleep(Math.random() * 3)
      return answer
    },
  }
}

function sweeping(...stores: readonly LockStore[]): Disposable {
  const timer = setInterval(() => {
    for (const store of stores) void store.sweep(100, historyTimes)
  }, 25)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

const options = { operations: 1_000, pauseMs: 3 }

/** Makes histories until one shows the mistake, because a short history may miss an occasional mistake. */
async function assertMistakeShows(
  seed: number,
  door: (client: string) => LockDoor,
  harm?: () => Promise<void>,
) {
  for (let tries = 0; tries < 10; tries++) {
    const short = { seed: seed + tries, operations: 400, pauseMs: 3, door }
    const { history } = await recordLocks({
      ...short,
      async harm() {
        await harm?.()
        return {}
      },
    })
    if (checkLocks(history, historyTimes).complaints.length > 0) return
  }
  assert.fail('ten histories in a row were found good')
}

test('a history of the memory store is one that a single wait queue could have given', {
  timeout: 60_000,
}, async () => {
  const store = createMemoryLocks(Date.now)
  using _ = sweeping(store)
  const counts = await checkedHistory({ ...options, seed: 1, door: () => doorTo(store) })
  assert.ok(counts.operations! >= 1_000)
  console.log(`[locks] memory: ${JSON.stringify(counts)}`)
})

/** What an engine might do wrong, now and then. */
const mistakes: Readonly<Record<string, (store: LockStore) => LockStore>> = {
  'grants a token twice': (store) => {
    const last = new Map<string, number>()
    return {
      ...store,
      async acquire(key, ask, times) {
        const answer = await store.acquire(key, ask, times)
        if (answer.standing.status !== 'granted') return answer
        const token = last.get(key.operation) ?? answer.standing.token
        last.set(key.operation, answer.standing.token)
        return { ...answer, standing: { ...answer.standing, token } }
      },
    }
  },
  'lets any node release': (store) => ({
    ...store,
    async release(key, who, end, times) {
      const answer = await store.release(key, who, end, times)
      return answer.released ? answer : { ...answer, released: { next: null } }
    },
  }),
  'forgets its waiters at a success': (store) => ({
    ...store,
    async release(key, who, end, times) {
      const waiters = (await store.inspect(key, 100))?.waiters ?? []
      if (end.outcome === 'success') for (const waiter of waiters) await store.leave(key, waiter, times)
      return store.release(key, who, end, times)
    },
  }),
  'does not report a success': (store) => ({
    ...store,
    release: (key, who, end, times) =>
      store.release(key, who, { ...end, outcome: 'failure', terminal: false }, times),
  }),
  'grants the newest waiter first': (store) => ({
    ...store,
    async acquire(key, ask, times) {
      const answer = await store.acquire(key, ask, times)
      if (answer.standing.status !== 'queued') return answer
      for (const waiter of ((await store.inspect(key, 100))?.waiters ?? []).slice(0, -1))
        await store.evict(key, waiter, times)
      return answer
    },
  }),
  'keeps waiters that left': (store) => ({
    ...store,
    async leave(key, who, times) {
      const answer = await store.keep(key, who, { isStreamed: false }, times)
      return { ...answer, left: answer.standing?.status === 'queued' }
    },
  }),
  'accepts calls of a holder with an expired lease': (store) => ({
    ...store,
    async renew(key, who, terms, times) {
      const answer = await store.renew(key, who, terms, times)
      return { ...answer, expiresAt: answer.expiresAt ?? Date.now() + (terms.ttlMs ?? 30_000) }
    },
  }),
  'notifies an end twice': (store) => {
    const notified = new Map<string, Awaited<ReturnType<LockStore['acquire']>>>()
    return {
      ...store,
      async acquire(key, ask, times) {
        const name = `${key.operation} ${ask.requestId}`
        const again = notified.get(name)
        notified.delete(name)
        if (again) return again
        const answer = await store.acquire(key, ask, times)
        if (answer.standing.status === 'ended') notified.set(name, answer)
        return answer
      },
    }
  },
  'ends leases early': (store) => ({
    ...store,
    acquire: (key, ask, times) => store.acquire(key, { ...ask, ttlMs: ask.ttlMs / 2 }, times),
  }),
  'shows wrong positions': (store) => ({
    ...store,
    async inspect(key, limit) {
      const view = await store.inspect(key, limit)
      return view && { ...view, waiters: view.waiters.toReversed() }
    },
  }),
}

describe('a history reveals an engine that', () => {
  for (const [mistake, mistaken] of Object.entries(mistakes)) {
    test(mistake, { timeout: 60_000, concurrent: true }, async () => {
      const store = mistaken(createMemoryLocks(Date.now))
      using _ = sweeping(store)
      await assertMistakeShows(2, () => doorTo(store))
    })
  }

  test('consists of two separate engines', { timeout: 60_000, concurrent: true }, async () => {
    const stores = [createMemoryLocks(Date.now), createMemoryLocks(Date.now)]
    using _ = sweeping(...stores)
    const doors = stores.map(doorTo)
    const door = (client: string) => doors[(client.length + client.charCodeAt(1)!) & 1]!
    await assertMistakeShows(3, door)
  })

  test('loses its data', { timeout: 60_000, concurrent: true }, async () => {
    let store = createMemoryLocks(Date.now)
    using _ = sweeping({ ...store, sweep: (...args) => store.sweep(...args) })
    const door: LockDoor = { ask: (...args) => doorTo(store).ask(...args) }
    await assertMistakeShows(
      4,
      () => door,
      async () => {
        await sleep(300)
        store = createMemoryLocks(Date.now)
      },
    )
  })
})
