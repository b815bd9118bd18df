import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createLocks, type Locks } from '../../src/locks/index.ts'
import { LocalNotifiers } from '../../src/storage/local-notifiers.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'
import { inGrowingLeases } from '../support/spans.ts'

// Locks within locks: one request that holds several.

function openLocks(): Locks {
  const store = createMemoryLocks(() => Date.now())
  return createLocks({
    store,
    notifier: new LocalNotifiers().within('default'),
    remoteWakeUps: true,
  })
}

test('a nested lock belongs to the same request, and each lock is released separately', async () => {
  await using locks = openLocks()
  const outer = await locks.hold('deploy', 'eu-1', { node: 'A' })
  const inner = await outer.hold('deploy', 'eu-2')
  assert.deepEqual([inner.node, inner.requestId], ['A', outer.requestId])
  const innermost = await inner.hold('deploy', 'eu-3', { ttlMs: '1m' })
  assert.equal(innermost.requestId, outer.requestId)
  await outer.release()
  assert.equal((await locks.inspect({ operation: 'deploy', resource: 'eu-2' })).holder?.node, 'A')
  await inner.release()
  await innermost.release()
})

test('wrong names and ends are refused by name, and the lock stays held', async () => {
  await using locks = openLocks()
  await using outer = await locks.hold('deploy', 'eu-1', { node: 'A' })
  const wrong = { code: 'invalid_argument' }
  await assert.rejects(outer.hold(null as never, 'eu-2'), {
    ...wrong,
    message: /^hold\.operation must be text/,
  })
  await assert.rejects(outer.hold('deploy', undefined as never), {
    ...wrong,
    message: /^hold\.resource must be/,
  })
  await assert.rejects(outer.release(null as never), { ...wrong, message: /^release must be an object/ })
  await assert.rejects(outer.release({ outcom: 'failure' } as never), {
    ...wrong,
    message: /no option "outcom"/,
  })
  await assert.rejects(locks.acquire(null as never), { ...wrong, message: /^acquire must be an object/ })
  const circular: unknown[] = []
  circular.push(circular)
  for (const end of [{ outcome: 'maybe' }, { error: 'no' }, { result: circular }])
    await assert.rejects(outer.release(end as never), wrong)
  await outer.progress({ percent: 1 })
  assert.equal(outer.signal.aborted, false)
  await outer[Symbol.asyncDispose]()
  assert.equal((await locks.inspect({ operation: 'deploy', resource: 'eu-1' })).holder, null)
})

test('a request cannot acquire a lock that it holds, and can after releasing it', async () => {
  await using locks = openLocks()
  await using outer = await locks.hold('deploy', 'eu-1', { node: 'A' })
  await assert.rejects(outer.hold('deploy', 'eu-1'), { code: 'conflict' })
  const inner = await outer.hold('deploy', 'eu-2')
  await assert.rejects(inner.hold('deploy', 'eu-1'), { code: 'conflict' })
  await assert.rejects(outer.hold('deploy', 'eu-2'), { code: 'conflict' })
  const first = inner.token
  await inner.release()
  await using again = await outer.hold('deploy', 'eu-2')
  assert.ok(again.token > first)
})

test('a nested acquire that may not wait is refused, and may ask again', async () => {
  await using locks = openLocks()
  await using other = await locks.hold('deploy', 'eu-2', { node: 'B' })
  await using outer = await locks.hold('deploy', 'eu-1', { node: 'A' })
  for (let times = 0; times < 2; times++)
    await assert.rejects(
      outer.hold('deploy', 'eu-2', { wait: false }),
      (error: { code: string; details: { status?: unknown } }) =>
        error.code === 'conflict' && error.details.status === 'refused',
    )
  await other.release()
  await using inner = await outer.hold('deploy', 'eu-2', { wait: false })
  assert.equal(inner.attempt, 1)
})

test('a wait within a lock ends when that lock is lost', async () => {
  await inGrowingLeases(300, async (ttlMs) => {
    await using locks = openLocks()
    await using _ = await locks.hold('deploy', 'eu-2', { node: 'B' })
    const outer = await locks.hold('deploy', 'eu-1', { node: 'A', ttlMs })
    const waiting = outer.hold('deploy', 'eu-2')
    await locks.evict({ operation: 'deploy', resource: 'eu-1', node: 'A', requestId: outer.requestId })
    await assert.rejects(waiting, { code: 'lease_lost' })
    const queue = { operation: 'deploy', resource: 'eu-2' }
    assert.equal((await locks.inspect(queue)).waiterCount, 0, 'it left the wait queue')
  })
}, 60_000)

test('an invalid option of a nested lock is refused by name', async () => {
  await using locks = openLocks()
  await using outer = await locks.hold('deploy', 'eu-1', { node: 'A' })
  await assert.rejects(outer.hold('deploy', 'eu-2', { node: 'B' } as never), /node/)
})

test('crossing flights are no deadlock: each has its own request', async () => {
  await using locks = openLocks()
  const flight = (first: string, second: string, node: string) =>
    locks.singleFlight('build', first, {
      node,
      check: () => undefined,
      run: async () => {
        await using _ = await locks.hold('build', second, { node, deadlineMs: 50 })
        return 1
      },
    })
  const outcomes = await Promise.allSettled([flight('a', 'b', 'A'), flight('b', 'a', 'B')])
  assert.ok(outcomes.some((outcome) => outcome.status === 'rejected' && outcome.reason.code === 'timeout'))
})
