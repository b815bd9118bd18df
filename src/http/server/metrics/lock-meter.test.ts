import assert from 'node:assert/strict'
import { Registry } from 'prom-client'
import { test } from 'vitest'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { locksDefaults, resolveLocksOptions } from '../../../locks/index.ts'
import { createMemoryLocks } from '../../../storage/memory/locks.ts'
import { createLockMeter, lockMeterLimits } from './lock-meter.ts'
import { type Family, type Value, viewOf } from './metric-registry.ts'

const times = resolveLocksOptions({})
const key = { operation: 'pull', resource: 'app:1' }
const named = (node: string) => ({ node, requestId: `of ${node}` })

function stage() {
  const clock = createFakeClock(1_000_000)
  const registry = new Registry()
  const countLocks = createLockMeter(registry, clock)
  const families = async () => (await registry.getMetricsAsJSON()) as unknown as Family[]
  const memory = createMemoryLocks(() => clock.now())
  const store = countLocks('shop', memory)
  const ask = (node: string, more: { ttlMs?: number; want?: 'turn' | 'result'; wait?: boolean } = {}) => ({
    ...named(node),
    ...{ wait: true, want: 'result', ttlMs: 30_000, deadlineMs: null, isStreamed: false, ...more },
  })
  return {
    clock,
    registry,
    memory,
    store,
    acquire: async (node: string, more?: Parameters<typeof ask>[1], line = key) =>
      (await store.acquire(line, ask(node, more) as never, times)).standing,
    async release(node: string, token: number, outcome: 'success' | 'failure' = 'success') {
      const end = { outcome, value: null, terminal: false }
      return store.release(key, { ...named(node), token }, end, times)
    },
    waits: async (outcome: string) => timesOf(await families(), 'wait', outcome),
    holds: async (outcome: string) => timesOf(await families(), 'hold', outcome),
    waiters: async () => countOf(await families(), 'signalbox_lock_waiters'),
    expired: async () => countOf(await families(), 'signalbox_lock_expired_total'),
  }
}

function linesOf(families: readonly Family[], name: string): readonly Value[] {
  return families.find((family) => family.name === name)!.values
}

/** Of the one operation that is used. */
function countOf(families: readonly Family[], name: string): number | undefined {
  return linesOf(families, name).find(({ labels }) => labels.operation === 'pull')?.value
}

/** How many there were, and how many seconds in all; undefined where there is no line. */
function timesOf(families: readonly Family[], what: 'wait' | 'hold', outcome: string) {
  const name = `signalbox_lock_${what}_seconds`
  const lines = linesOf(families, name).filter(({ labels }) => labels.outcome === outcome)
  const line = (suffix: string) => lines.find(({ metricName }) => metricName === `${name}_${suffix}`)?.value
  return lines.length === 0 ? undefined : [line('count'), line('sum')]
}

function granted(standing: Awaited<ReturnType<ReturnType<typeof stage>['acquire']>>): number {
  assert.equal(standing.status, 'granted')
  return standing.status === 'granted' ? standing.token : 0
}

test('a free lock counts as a wait of zero, and as held until its release', async () => {
  const { clock, acquire, release, waits, holds } = stage()
  const token = granted(await acquire('a'))
  clock.advance(2_000)
  // Asking again for what one has is no other turn.
  granted(await acquire('a'))
  clock.advance(2_000)
  await release('a', token)
  assert.deepEqual(await waits('granted'), [1, 0])
  assert.deepEqual(await holds('success'), [1, 4])
  await release('a', token)
  assert.deepEqual(await holds('success'), [1, 4], 'a release that came too late counts for nothing')
})

test('a waiter counts until its wait is over, by its outcome', async () => {
  const { clock, store, acquire, release, waits, holds, waiters } = stage()
  const first = granted(await acquire('a'))
  for (const node of ['b', 'c', 'd', 'e']) await acquire(node)
  await acquire('b')
  assert.equal(await waiters(), 4)
  await store.leave(key, named('d'), times)
  await store.evict(key, named('e'), times)
  assert.equal(await waiters(), 2)
  clock.advance(3_000)
  await release('a', first, 'failure')
  assert.deepEqual(await holds('failure'), [1, 3])
  assert.equal(await waiters(), 1, 'b is next, and known to be so before it looks')
  clock.advance(1_000)
  const second = granted(await acquire('b'))
  assert.deepEqual(await waits('granted'), [2, 3])
  await release('b', second)
  assert.deepEqual(await holds('success'), [1, 1])
  assert.equal((await acquire('c')).status, 'ended')
  assert.deepEqual(
    [await waits('completed'), await waits('gone')],
    [
      [1, 4],
      [2, 0],
    ],
  )
  assert.equal(await waiters(), 0)
})

test('an expired lease is counted once, whichever call finds it', async () => {
  const { clock, store, acquire, expired, holds, waits } = stage()
  granted(await acquire('a', { ttlMs: 1_000 }))
  assert.equal(await expired(), 0)
  clock.advance(1_500)
  await store.sweep(10, times)
  assert.deepEqual([await expired(), await holds('lost')], [1, [1, 1.5]])
  granted(await acquire('b', { ttlMs: 1_000 }))
  clock.advance(1_000)
  granted(await acquire('c'))
  assert.equal(await expired(), 2, 'by the next request')
  await store.sweep(10, times)
  assert.deepEqual([await expired(), await holds('lost'), await waits('granted')], [2, [2, 2.5], [3, 0]])
  await store.evict(key, named('c'), times)
  assert.deepEqual([await expired(), await holds('lost')], [2, [3, 2.5]], 'an operator is no lease')
})

test('an expired lease that a step on another operation finds counts for its own operation', async () => {
  const { clock, store, expired, holds } = stage()
  const excluding = resolveLocksOptions({ conflicts: [['pull', 'delete']] })
  const ask = { wait: true, want: 'turn', deadlineMs: null, isStreamed: false } as const
  await store.acquire(key, { ...ask, ...named('a'), ttlMs: 1_000 }, excluding)
  clock.advance(1_000)
  await store.acquire({ ...key, operation: 'delete' }, { ...ask, ...named('b'), ttlMs: 1_000 }, excluding)
  assert.deepEqual([await expired(), await holds('lost')], [1, [1, 1]])
})

test('a holder whose lease expired and who acquires it again has had two turns', async () => {
  const { clock, acquire, expired, holds } = stage()
  granted(await acquire('a', { ttlMs: 1_000 }))
  clock.advance(1_000)
  granted(await acquire('a'))
  assert.deepEqual([await expired(), await holds('lost')], [1, [1, 1]])
})

test('a waiter that disappears is dropped after the lease of its position', async () => {
  const { clock, store, acquire, waiters, waits } = stage()
  await acquire('a', { ttlMs: 3_600_000 })
  for (const node of ['b', 'c']) await acquire(node)
  clock.advance(locksDefaults.waiterLeaseMs / 2)
  await store.keep(key, named('c'), { isStreamed: true }, times)
  clock.advance(locksDefaults.waiterLeaseMs / 2)
  assert.deepEqual([await waiters(), await waits('gone')], [1, [1, 0]])
  clock.advance(locksDefaults.waiterLeaseMs)
  assert.deepEqual([await waiters(), await waits('gone')], [0, [2, locksDefaults.waiterLeaseMs / 2_000]])
})

test('a grant to a requester that waits at another server starts no turn here', async () => {
  const { memory, acquire, release, holds, waits } = stage()
  const token = granted(await acquire('a'))
  const elsewhere = { ...named('b'), wait: true, want: 'turn', ttlMs: 30_000, deadlineMs: null } as const
  await memory.acquire(key, { ...elsewhere, isStreamed: false }, times)
  assert.deepEqual((await release('a', token)).released, { next: named('b') })
  assert.deepEqual(
    [await holds('success'), await holds('lost'), await waits('granted')],
    [[1, 0], undefined, [1, 0]],
  )
})

test('the number of operations shown is bounded, and a namespace sees only its own', async () => {
  const { registry, acquire } = stage()
  const familiesOf = async (namespace: string) =>
    (await (await viewOf(registry, namespace)).getMetricsAsJSON()) as unknown as Family[]
  for (let at = 0; at < lockMeterLimits.operations + 5; at++)
    await acquire('a', {}, { operation: `op${at}`, resource: 'r' })
  const shown = linesOf(await familiesOf('shop'), 'signalbox_lock_waiters')
  assert.equal(shown.length, lockMeterLimits.operations)
  const all = linesOf((await registry.getMetricsAsJSON()) as unknown as Family[], 'signalbox_lock_waiters')
  assert.deepEqual(all.at(-1)!.labels, { namespace: 'other', operation: 'other' })
  assert.deepEqual(linesOf(await familiesOf('else'), 'signalbox_lock_waiters'), [])
  const labels = new Set(all.flatMap((line) => Object.keys(line.labels)))
  assert.deepEqual([...labels], ['namespace', 'operation'])
})
