import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Conflicts, excludedBy, groupOf, type LockTimes } from '../../src/locks/rules/index.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'
import { Random } from '../conformance/random.ts'

// Operations that exclude each other, checked from outside: the check knows only the holders, the waiters and their
// order of arrival.

const conflicts: Conflicts = [
  ['pull', 'update'],
  ['update', 'drop'],
  ['drop', 'tag'],
]
const operations = ['pull', 'update', 'drop', 'tag', 'read'] as const
const nodes = ['a', 'b', 'c', 'd', 'e', 'f'] as const

test('operations that exclude each other, directly or by others, are judged together', () => {
  assert.deepEqual(groupOf(conflicts, 'tag'), ['drop', 'pull', 'tag', 'update'])
  assert.equal(groupOf(conflicts, 'tag'), groupOf(conflicts, 'pull'), 'the same list for all of them')
  assert.equal(groupOf(conflicts, 'read'), undefined)
  assert.equal(groupOf(undefined, 'pull'), undefined)
  assert.deepEqual(excludedBy(conflicts, 'update'), ['pull', 'drop'])
  assert.deepEqual(excludedBy(conflicts, 'read'), [])
  const apart: Conflicts = [
    ['a', 'b'],
    ['c', 'd'],
  ]
  assert.deepEqual(groupOf(apart, 'd'), ['c', 'd'])
})

for (const seed of [1, 2, 3, 4, 5, 6, 7, 8])
  test(`in walk ${seed} no grants overlap, no waiter is passed, and no waiter waits without a reason`, async () => {
    const random = new Random(seed)
    let now = Date.now()
    const store = createMemoryLocks(() => now)
    const times: LockTimes = {
      waiterLeaseMs: 1_000_000_000,
      streamedTakeUpMs: 1_000_000_000,
      takeUpMs: 1_000_000_000,
      // Short, so that a requester that returns starts again.
      keepMs: 1,
      lockDelayMs: 0,
      maxWaiters: 1_000,
      conflicts,
    }
    /** The arrival of each waiter, by operation and node. */
    const arrivals = new Map<string, number>()
    let came = 0
    let before = await look()
    const granted = { atOnce: 0, later: 0 }

    for (let step = 0; step < 600; step++) {
      now += 10
      const operation = random.pick(operations)
      const key = { operation, resource: 'r' }
      const node = random.pick(nodes)
      const who = { node, requestId: node }
      const held = before.get(operation)!.holder
      const roll = random.below(100)
      if (roll < 50) {
        const ask = { ...who, wait: random.chance(0.9), want: 'turn', isStreamed: false } as const
        const ttlMs = random.chance(0.1) ? 15 : 1_000_000_000
        const deadlineMs = random.chance(0.1) ? 25 : null
        const { standing } = await store.acquire(key, { ...ask, ttlMs, deadlineMs }, times)
        if (standing.status === 'queued' && !arrivals.has(`${operation} ${node}`))
          arrivals.set(`${operation} ${node}`, ++came)
      } else if (roll < 80 && held) {
        const holder = { node: held, requestId: held }
        const { standing } = await store.keep(key, holder, { isStreamed: false }, times)
        if (standing?.status === 'granted') {
          const outcome = random.pick(['success', 'failure'] as const)
          const end = { outcome, value: null, terminal: outcome === 'failure' && random.chance(0.2) }
          await store.release(key, { ...holder, token: standing.token }, end, times)
        }
      } else if (roll < 88) await store.leave(key, who, times)
      else if (roll < 94) await store.evict(key, who, times)
      else await store.sweep(100, times)
      // A sweep applies due changes within a moment.
      await store.sweep(100, times)

      const after = await look()
      check(after)
      before = after
    }
    assert.ok(granted.atOnce > 5 && granted.later > 20, JSON.stringify(granted))

    async function look() {
      const queues = new Map<string, { holder: string | undefined; waiters: readonly string[] }>()
      for (const operation of operations) {
        const view = await store.inspect({ operation, resource: 'r' }, 100)
        const waiters = view?.waiters.map((waiter) => waiter.node) ?? []
        queues.set(operation, { holder: view?.holder?.node, waiters })
      }
      return queues
    }

    function check(after: Awaited<ReturnType<typeof look>>): void {
      for (const operation of operations) {
        const { holder, waiters } = after.get(operation)!
        const excluded = excludedBy(conflicts, operation)
        const positions = waiters.map((node) => arrivals.get(`${operation} ${node}`)!)
        assert.deepEqual(
          positions,
          positions.toSorted((a, b) => a - b),
          `${operation}: in order of arrival`,
        )
        if (holder !== undefined) {
          const both = excluded.filter((other) => after.get(other)!.holder !== undefined)
          assert.deepEqual(both, [], `${operation} is held beside what it excludes`)
          if (before.get(operation)!.holder !== holder) checkGrant(operation, holder, after)
        } else if (waiters.length > 0) {
          const isKept = excluded.some((other) => {
            const queue = after.get(other)!
            return (
              queue.holder !== undefined ||
              queue.waiters.some((node) => arrivals.get(`${other} ${node}`)! < positions[0]!)
            )
          })
          assert.ok(isKept, `${waiters[0]} waits for ${operation} and nothing keeps it`)
        }
      }
      for (const name of arrivals.keys()) {
        const [operation = '', node = ''] = name.split(' ')
        if (!after.get(operation)!.waiters.includes(node)) arrivals.delete(name)
      }
    }

    /** Checks that no earlier waiter of an excluding operation still waits. */
    function checkGrant(operation: string, node: string, after: Awaited<ReturnType<typeof look>>): void {
      const arrival = arrivals.get(`${operation} ${node}`) ?? Number.POSITIVE_INFINITY
      granted[Number.isFinite(arrival) ? 'later' : 'atOnce']++
      for (const other of [operation, ...excludedBy(conflicts, operation)])
        for (const waiter of after.get(other)!.waiters) {
          const earlier = arrivals.get(`${other} ${waiter}`)!
          // Its own wait queue may have been joined after the grant, by the same step.
          assert.ok(
            earlier > arrival || earlier === came,
            `${node} was granted ${operation} before ${waiter} of ${other}`,
          )
        }
    }
  })
