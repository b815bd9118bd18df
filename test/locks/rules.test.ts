import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type LockKey, type LockStore, resolveLocksOptions } from '../../src/locks/index.ts'
import type { AcquireRequest, LockTimes, Standing } from '../../src/locks/rules/index.ts'
import { createMemoryLocks } from '../../src/storage/memory/locks.ts'

// The rules of a wait queue, on the memory store with a clock that the test moves.

const times: LockTimes = resolveLocksOptions({ maxWaiters: 5 })

class Stage {
  now = 1_000_000
  readonly store: LockStore = createMemoryLocks(() => this.now)
  readonly times: LockTimes

  constructor(changed: Partial<LockTimes> = {}) {
    this.times = { ...times, ...changed }
  }

  async ask(operation: string, node: string, options: Partial<AcquireRequest> = {}): Promise<Standing> {
    const ask = { wait: true, want: 'result', ttlMs: 30_000, deadlineMs: null, isStreamed: false } as const
    const { standing } = await this.store.acquire(
      keyOf(operation),
      { ...ask, node, requestId: node, ...options },
      this.times,
    )
    return standing
  }

  async granted(operation: string, node: string): Promise<number> {
    const standing = await this.ask(operation, node)
    assert.equal(standing.status, 'granted', `${node} has ${operation}`)
    return (standing as { token: number }).token
  }

  async end(
    operation: string,
    node: string,
    token: number,
    outcome: 'success' | 'failure',
    terminal = false,
  ) {
    const who = { node, requestId: node, token }
    return this.store.release(
      keyOf(operation),
      who,
      { outcome, value: JSON.stringify(outcome), terminal },
      this.times,
    )
  }

  async queue(operation: string): Promise<readonly string[]> {
    return (await this.store.inspect(keyOf(operation), 100))!.waiters.map(({ node }) => node)
  }
}

function keyOf(operation: string): LockKey {
  return { operation, resource: 'resource123' }
}

test('scenario 1: nodes of one operation wait in order, and each failure hands to the next', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  assert.deepEqual(await stage.ask('pull', 'B'), { status: 'queued', position: 1 })
  assert.deepEqual(await stage.ask('pull', 'C'), { status: 'queued', position: 2 })
  assert.deepEqual((await stage.end('pull', 'A', a, 'failure')).released, {
    next: { node: 'B', requestId: 'B' },
  })
  assert.deepEqual(await stage.queue('pull'), ['C'])
  const b = await stage.granted('pull', 'B')
  assert.deepEqual((await stage.end('pull', 'B', b, 'failure')).released?.next?.node, 'C')
  assert.deepEqual(await stage.queue('pull'), [])
  assert.ok(b > a && (await stage.granted('pull', 'C')) > b, 'tokens rise')
})

test('scenario 2: operations on one resource do not block one another', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.granted('update', 'B')
  await stage.granted('delete', 'C')
  assert.deepEqual(await stage.ask('pull', 'D'), { status: 'queued', position: 1 })
  assert.equal((await stage.end('pull', 'A', a, 'failure')).released?.next?.node, 'D')
  assert.equal((await stage.ask('update', 'B')).status, 'granted', 'untouched')
  assert.equal((await stage.ask('delete', 'C')).status, 'granted', 'untouched')
})

test('scenario 3: a success notifies every waiter once, and none is granted', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'B')
  await stage.ask('pull', 'C')
  const { released, notified } = await stage.end('pull', 'A', a, 'success')
  assert.deepEqual([released, notified.everyone], [{ next: null }, true])
  assert.deepEqual(await stage.queue('pull'), [], 'no ghosts')
  assert.deepEqual(await stage.ask('pull', 'B'), { status: 'ended', kind: 'completed', value: '"success"' })
  const again = await stage.ask('pull', 'B')
  assert.equal(again.status, 'granted', 'the next ask is a new request')
})

test('T1 to T5: the whole sequence of three operations and a failed pull', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.granted('update', 'B')
  await stage.granted('delete', 'C')
  assert.equal((await stage.ask('pull', 'D')).status, 'queued')
  const { notified } = await stage.end('pull', 'A', a, 'failure')
  assert.deepEqual(notified.requesters, [{ node: 'D', requestId: 'D' }], 'D is told, and only D')
  const standing = await stage.ask('pull', 'D')
  assert.deepEqual([standing.status, (standing as { attempt: number }).attempt], ['granted', 2])
})

test('a node that asks again gets the same answer, and its lease is not extended', async () => {
  const stage = new Stage()
  const first = await stage.ask('pull', 'A')
  stage.now += 5_000
  assert.deepEqual(await stage.ask('pull', 'A'), first)
  await stage.ask('pull', 'B')
  assert.deepEqual(await stage.ask('pull', 'B'), { status: 'queued', position: 1 })
  assert.deepEqual(await stage.queue('pull'), ['B'])
})

test('another request of the same node waits in the queue like any other', async () => {
  const stage = new Stage()
  await stage.granted('pull', 'A')
  assert.equal((await stage.ask('pull', 'A', { requestId: 'second' })).status, 'queued')
})

test('a caller that does not want to wait is refused, and learns the holder', async () => {
  const stage = new Stage()
  await stage.granted('pull', 'A')
  const standing = await stage.ask('pull', 'B', { wait: false })
  assert.equal(standing.status, 'refused')
  assert.equal((standing as { holder: { node: string } }).holder.node, 'A')
  assert.deepEqual(await stage.queue('pull'), [])
})

test('an expired lease passes to the head of the queue; the late holder can change nothing', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'B', { isStreamed: true })
  stage.now += 29_000
  await stage.ask('pull', 'B', { isStreamed: true })
  stage.now += 1_000
  assert.equal((await stage.ask('pull', 'B')).status, 'granted')
  assert.equal((await stage.end('pull', 'A', a, 'success')).released, undefined)
  const who = { node: 'A', requestId: 'A', token: a }
  const { expiresAt } = await stage.store.renew(
    keyOf('pull'),
    who,
    { ttlMs: 1_000, progress: null },
    stage.times,
  )
  assert.equal(expiresAt, undefined)
})

test('an unused grant passes to the next waiter and costs no attempt', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'dead', { isStreamed: true })
  await stage.ask('pull', 'B')
  await stage.end('pull', 'A', a, 'failure')
  stage.now += 1_999
  assert.equal((await stage.ask('pull', 'B')).status, 'queued')
  stage.now += 1
  const standing = await stage.ask('pull', 'B')
  assert.deepEqual([standing.status, (standing as { attempt: number }).attempt], ['granted', 2])
})

test('a waiter that neither asks nor listens is skipped', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'silent')
  stage.now += 20_000
  await stage.ask('pull', 'B')
  await stage.store.renew(
    keyOf('pull'),
    { node: 'A', requestId: 'A', token: a },
    { ttlMs: 60_000, progress: '50' },
    stage.times,
  )
  stage.now += 10_000
  const { released } = await stage.end('pull', 'A', a, 'failure')
  assert.equal(released?.next?.node, 'B')
})

test('a terminal failure is notified to every waiter, also to waiters that want a turn', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'B')
  await stage.ask('pull', 'C', { want: 'turn' })
  assert.deepEqual((await stage.end('pull', 'A', a, 'failure', true)).released, { next: null })
  for (const node of ['B', 'C'])
    assert.deepEqual(await stage.ask('pull', node), { status: 'ended', kind: 'failed', value: '"failure"' })
})

test('after a success the first waiter that wants a turn is granted; other turns keep their positions', async () => {
  const stage = new Stage()
  const a = await stage.granted('deploy', 'A')
  await stage.ask('deploy', 'B')
  await stage.ask('deploy', 'C', { want: 'turn' })
  await stage.ask('deploy', 'D', { want: 'turn' })
  assert.equal((await stage.end('deploy', 'A', a, 'success')).released?.next?.node, 'C')
  assert.deepEqual(await stage.queue('deploy'), ['D'])
  const standing = await stage.ask('deploy', 'C')
  assert.equal((standing as { attempt: number }).attempt, 1, 'a new flight')
})

test('a notified waiter that asks again in time keeps its old position', async () => {
  const stage = new Stage()
  const a = await stage.granted('pull', 'A')
  await stage.ask('pull', 'B')
  await stage.end('pull', 'A', a, 'success')
  assert.equal((await stage.ask('pull', 'B')).status, 'ended')
  await stage.granted('pull', 'X')
  await stage.ask('pull', 'Y')
  assert.deepEqual(await stage.ask('pull', 'B'), { status: 'queued', position: 1 })
  assert.deepEqual(await stage.queue('pull'), ['B', 'Y'])
})

test('a waiter leaves the queue at its deadline or when it asks to leave', async () => {
  const stage = new Stage()
  await stage.granted('pull', 'A')
  await stage.ask('pull', 'B', { deadlineMs: 1_000 })
  await stage.ask('pull', 'C')
  stage.now += 1_000
  assert.deepEqual(await stage.ask('pull', 'B'), { status: 'ended', kind: 'timeout', value: null })
  const who = { node: 'C', requestId: 'C' }
  assert.equal((await stage.store.leave(keyOf('pull'), who, stage.times)).left, true)
  assert.equal((await stage.store.leave(keyOf('pull'), who, stage.times)).left, false)
  const holder = { node: 'A', requestId: 'A' }
  assert.equal((await stage.store.leave(keyOf('pull'), holder, stage.times)).left, 'holding')
  assert.deepEqual(await stage.queue('pull'), [])
})

test('a wait queue never exceeds its limit', async () => {
  const stage = new Stage()
  await stage.granted('pull', 'A')
  for (const node of ['1', '2', '3', '4', '5']) await stage.ask('pull', node)
  assert.deepEqual(await stage.ask('pull', '6'), { status: 'full', waiters: 5 })
})

test('after a lost lease the next grant waits for the delay, also for new waiters', async () => {
  const stage = new Stage({ lockDelayMs: 5_000 })
  await stage.granted('pull', 'A')
  stage.now += 30_000
  assert.equal((await stage.ask('pull', 'B', { wait: false })).status, 'refused')
  assert.equal((await stage.ask('pull', 'C')).status, 'queued')
  stage.now += 4_999
  assert.equal((await stage.ask('pull', 'C')).status, 'queued')
  stage.now += 1
  assert.equal((await stage.ask('pull', 'C')).status, 'granted')
})

test('a sweep grants the next waiter, notifies those affected, and forgets ended wait queues', async () => {
  const stage = new Stage()
  await stage.granted('pull', 'A')
  await stage.ask('pull', 'B', { deadlineMs: 20_000 })
  await stage.ask('pull', 'C')
  stage.now += 25_000
  await stage.ask('pull', 'C')
  assert.deepEqual(
    (await stage.store.sweep(100, stage.times)).flatMap(({ notified }) =>
      notified.requesters.map(({ node }) => node),
    ),
    ['B'],
  )
  stage.now += 5_000
  const nodes = (await stage.store.sweep(100, stage.times)).flatMap(({ notified }) => notified.requesters)
  assert.deepEqual(
    nodes.map(({ node }) => node),
    ['A', 'C'],
  )
  stage.now += 200_000
  await stage.store.sweep(100, stage.times)
  stage.now += 200_000
  await stage.store.sweep(100, stage.times)
  assert.equal(await stage.store.inspect(keyOf('pull'), 10), undefined)
})

test('tokens still rise after a sweep has forgotten the wait queue', async () => {
  const stage = new Stage()
  const first = await stage.granted('pull', 'A')
  await stage.end('pull', 'A', first, 'success')
  stage.now += 100_000
  await stage.store.sweep(100, stage.times)
  assert.equal(await stage.store.inspect(keyOf('pull'), 10), undefined)
  assert.ok((await stage.granted('pull', 'A')) > first)
})
