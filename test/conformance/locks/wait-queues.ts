import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Notified } from '../../../src/locks/rules/index.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import type { LocksCandidate } from '../candidates.ts'
import { clockMs, keyOf, longMs, longTimes, named, Stage, shortMs, until } from './stage.ts'

/** The rules of a wait queue: grants, waits, and notifications of waiters. */
export function waitingContract({ open }: LocksCandidate): void {
  test('scenario 1: nodes of one operation wait in order, and each failure hands to the next', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1)
    await stage.queued('pull', 'C', 2)
    assert.deepEqual((await stage.end('pull', 'A', a.token, 'failure')).released, { next: named('B') })
    assert.deepEqual(await stage.queue('pull'), ['C'])
    const b = await stage.granted('pull', 'B')
    assert.deepEqual((await stage.end('pull', 'B', b.token, 'failure')).released, { next: named('C') })
    assert.deepEqual(await stage.queue('pull'), [])
    const c = await stage.granted('pull', 'C')
    assert.ok(b.token > a.token && c.token > b.token, 'tokens rise')
    for (const { token } of [a, b, c]) assert.ok(Number.isSafeInteger(token))
    assert.deepEqual([a.attempt, b.attempt, c.attempt], [1, 2, 3])
  })

  test('scenario 2: operations on one resource do not block one another', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    const b = await stage.granted('update', 'B')
    const c = await stage.granted('delete', 'C')
    await stage.queued('pull', 'D', 1)
    assert.deepEqual((await stage.end('pull', 'A', a.token, 'failure')).released, { next: named('D') })
    assert.equal((await stage.granted('update', 'B')).token, b.token, 'untouched')
    assert.equal((await stage.granted('delete', 'C')).token, c.token, 'untouched')
  })

  test('scenario 3: a success notifies every waiter once, and none is granted', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1)
    await stage.queued('pull', 'C', 2)
    const { released, notified } = await stage.end('pull', 'A', a.token, 'success')
    assert.deepEqual([released, notified.everyone], [{ next: null }, true])
    assert.deepEqual(await stage.queue('pull'), [], 'no ghosts')
    assert.equal((await stage.look('pull')).holder, null)
    const completed = { status: 'ended', kind: 'completed', value: '"success"' }
    assert.deepEqual(await stage.ask('pull', 'B'), completed)
    await stage.granted('pull', 'B')
    assert.deepEqual(await stage.ask('pull', 'C'), completed, 'however much later')
  })

  test('T1 to T5: the whole sequence of three operations and a failed pull', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.granted('update', 'B')
    await stage.granted('delete', 'C')
    await stage.queued('pull', 'D', 1)
    const { notified } = await stage.end('pull', 'A', a.token, 'failure')
    assert.deepEqual(notified, { requesters: [named('D')], everyone: false, changed: true }, 'D, and only D')
    assert.equal((await stage.granted('pull', 'D')).attempt, 2)
  })

  test('a node that asks again gets the same answer, and its lease is not extended', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const first = await stage.granted('pull', 'A')
    await stage.pass(2 * clockMs + shortMs)
    // Ten times: a time computed from two clock readings is only sometimes the same.
    for (let i = 0; i < 10; i++) assert.deepEqual(await stage.granted('pull', 'A'), first)
    await stage.queued('pull', 'B', 1)
    await stage.queued('pull', 'C', 2)
    await stage.queued('pull', 'B', 1)
    assert.deepEqual(await stage.queue('pull'), ['B', 'C'])
  })

  test('another request of the same node waits in the queue like any other', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.queued('pull', 'A', 1, { requestId: 'second' })
    assert.deepEqual((await stage.end('pull', 'A', a.token, 'failure')).released, {
      next: { node: 'A', requestId: 'second' },
    })
    await stage.queued('pull', 'A', 1)
  })

  test('a caller that does not want to wait is refused, and learns the holder', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { expiresAt } = await stage.granted('pull', 'A')
    const standing = await stage.ask('pull', 'B', { wait: false })
    assert.ok(standing.status === 'refused' && standing.holder !== null)
    const { node, requestId, attempt, progress } = standing.holder
    assert.deepEqual({ node, requestId, attempt, progress }, { ...named('A'), attempt: 1, progress: null })
    assert.ok(Math.abs(standing.holder.expiresAt - expiresAt) <= clockMs)
    assert.deepEqual(await stage.queue('pull'), [])
    await stage.queued('pull', 'C', 1)
    assert.equal((await stage.ask('pull', 'B', { wait: false })).status, 'refused')
    await stage.queued('pull', 'C', 1, { wait: false })
  })

  test('an expired lease passes to the head of the queue; the late holder can change nothing', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { a, pull } = await inGrowingSpans('both came while A held', async (ttlMs) => {
      const queue = `pull ${ttlMs}`
      const granted = await stage.granted(queue, 'A', { ttlMs })
      await stage.ask(queue, 'B', { isStreamed: true })
      await stage.ask(queue, 'C')
      return (await stage.look(queue)).holder?.node === 'A' ? { a: granted, pull: queue } : undefined
    })
    const b = await stage.becomes(pull, 'B')
    assert.ok(b.token > a.token)
    assert.equal(b.attempt, 2)
    const { holder, lastOutcome } = await stage.look(pull)
    assert.ok(holder!.since >= a.expiresAt - clockMs, 'not before the lease was over')
    assert.deepEqual([lastOutcome?.outcome, lastOutcome?.node], ['failure', 'A'])
    assert.match(lastOutcome!.value!, /lease_lost/)

    assert.equal((await stage.end(pull, 'A', a.token, 'success')).released, undefined)
    const who = { ...named('A'), token: a.token }
    const renewal = { ttlMs: longMs, progress: null }
    assert.equal((await stage.store.renew(keyOf(pull), who, renewal, longTimes)).expiresAt, undefined)
    assert.equal((await stage.store.shorten(keyOf(pull), who, 0, longTimes)).shortened, false)
    assert.equal((await stage.granted(pull, 'B')).token, b.token, 'nothing changed')
    assert.deepEqual(await stage.queue(pull), ['C'])
  })

  test('an unused grant passes to the next waiter and costs no attempt', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    for (const isStreamed of [true, false])
      await inGrowingSpans('the first waiter was seen to have it', async (spanMs) => {
        const queue = `${isStreamed ? 'streamed' : 'asking'} ${spanMs}`
        const a = await stage.granted(queue, 'A')
        await stage.ask(queue, 'dead', { isStreamed })
        await stage.ask(queue, 'B')
        const end = { outcome: 'failure', value: null, terminal: false } as const
        const who = { ...named('A'), token: a.token }
        const times = { ...longTimes, takeUpMs: spanMs, streamedTakeUpMs: spanMs }
        await stage.store.release(keyOf(queue), who, end, times)
        const { holder } = await stage.look(queue)
        if (holder?.node !== 'dead') return undefined
        assert.equal((await stage.becomes(queue, 'B')).attempt, 2)
        const { since } = (await stage.look(queue)).holder!
        assert.ok(since >= holder.since + spanMs - clockMs, 'not before the window was over')
        return true
      })
  })

  test('a waiter that missed its grant has its old position when it asks again', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    for (const node of ['late', 'B', 'C']) await stage.ask('pull', node)
    const end = { outcome: 'failure', value: null, terminal: false } as const
    const who = { ...named('A'), token: a.token }
    await stage.store.release(keyOf('pull'), who, end, { ...longTimes, takeUpMs: shortMs })
    await stage.becomes('pull', 'B')
    await stage.queued('pull', 'late', 1)
    assert.deepEqual(await stage.queue('pull'), ['late', 'C'])
  })

  test('a waiter that neither asks nor listens is skipped', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'silent', { times: { waiterLeaseMs: shortMs } })
    await stage.ask('pull', 'B')
    await stage.pass(shortMs)
    const { released, notified } = await stage.end('pull', 'A', a.token, 'failure')
    assert.deepEqual(released, { next: named('B') })
    assert.deepEqual(nodes(notified), ['B', 'silent'])
  })

  test('a waiter keeps its position by asking or by being kept; being late meanwhile costs nothing', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    for (const node of ['asks', 'kept', 'B'])
      await stage.ask('pull', node, { times: { waiterLeaseMs: shortMs } })
    await stage.pass(shortMs)
    await stage.queued('pull', 'asks', 1)
    const { standing } = await stage.store.keep(keyOf('pull'), named('kept'), { isStreamed: true }, longTimes)
    assert.deepEqual(standing, { status: 'queued', position: 2 })
    assert.deepEqual((await stage.end('pull', 'A', a.token, 'failure')).released, { next: named('asks') })
    const next = await stage.granted('pull', 'asks')
    assert.deepEqual((await stage.end('pull', 'asks', next.token, 'failure')).released, {
      next: named('kept'),
    })
  })

  test('a terminal failure is notified to every waiter, also to waiters that want a turn', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B')
    await stage.ask('pull', 'C', { want: 'turn' })
    const { released } = await stage.end('pull', 'A', a.token, 'failure', { terminal: true })
    assert.deepEqual(released, { next: null })
    for (const node of ['B', 'C'])
      assert.deepEqual(await stage.ask('pull', node), { status: 'ended', kind: 'failed', value: '"failure"' })
    assert.equal((await stage.granted('pull', 'B')).attempt, 1, 'a new flight')
  })

  test('after a success the first waiter that wants a turn is granted; other turns keep their positions', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('deploy', 'A')
    await stage.ask('deploy', 'B')
    await stage.ask('deploy', 'C', { want: 'turn' })
    await stage.ask('deploy', 'D', { want: 'turn' })
    const { released, notified } = await stage.end('deploy', 'A', a.token, 'success')
    assert.deepEqual(released, { next: named('C') })
    assert.deepEqual([nodes(notified), notified.everyone], [['C'], true])
    assert.deepEqual(await stage.queue('deploy'), ['D'])
    assert.equal((await stage.granted('deploy', 'C')).attempt, 1, 'a new flight')
    assert.equal((await stage.ask('deploy', 'B')).status, 'ended')
  })

  test('a notified waiter that asks again in time keeps its old position', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B')
    await stage.end('pull', 'A', a.token, 'success')
    assert.equal((await stage.ask('pull', 'B')).status, 'ended')
    await stage.granted('pull', 'X')
    await stage.ask('pull', 'Y')
    await stage.queued('pull', 'B', 1)
    assert.deepEqual(await stage.queue('pull'), ['B', 'Y'])
  })

  test('a waiter that asks again too late learns no old result and joins at the end', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B')
    const end = { outcome: 'success', value: '1', terminal: false } as const
    const who = { ...named('A'), token: a.token }
    await stage.store.release(keyOf('pull'), who, end, { ...longTimes, keepMs: shortMs })
    await stage.pass(shortMs)
    await stage.granted('pull', 'X')
    await stage.queued('pull', 'Y', 1)
    await stage.queued('pull', 'B', 2)
  })

  test('a waiter leaves the queue at its deadline or when it asks to leave', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    await stage.granted('pull', 'A')
    await stage.ask('pull', 'B', { deadlineMs: shortMs })
    await stage.ask('pull', 'C')
    await stage.pass(shortMs)
    assert.deepEqual(await stage.ask('pull', 'B'), { status: 'ended', kind: 'timeout', value: null })
    const left = async (node: string) => (await stage.store.leave(keyOf('pull'), named(node), longTimes)).left
    assert.equal(await left('C'), true)
    assert.equal(await left('C'), false)
    assert.equal(await left('A'), 'holding')
    assert.deepEqual(await stage.queue('pull'), [])
  })

  test('an unused grant can be declined: the next waiter gets it, and no attempt counts', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const a = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B')
    await stage.ask('pull', 'C')
    await stage.end('pull', 'A', a.token, 'failure')
    const { left, notified } = await stage.store.leave(keyOf('pull'), named('B'), longTimes)
    assert.equal(left, true)
    assert.deepEqual(nodes(notified), ['C'])
    assert.equal((await stage.granted('pull', 'C')).attempt, 2)
  })

  test('an evicted waiter is notified, and an evicted holder’s turn ends as a failure', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const evict = async (node: string) =>
      (await stage.store.evict(keyOf('pull'), named(node), longTimes)).evicted
    const a = await stage.granted('pull', 'A')
    for (const node of ['B', 'C']) await stage.ask('pull', node)
    assert.equal(await evict('B'), true)
    assert.deepEqual(await stage.queue('pull'), ['C'])
    assert.equal(await evict('A'), true)
    assert.equal(await evict('unknown'), false)
    assert.equal((await stage.end('pull', 'A', a.token, 'success')).released, undefined)
    assert.equal((await stage.granted('pull', 'C')).attempt, 2)
    for (const node of ['A', 'B'])
      assert.deepEqual(await stage.ask('pull', node), { status: 'ended', kind: 'evicted', value: null })
    const { lastOutcome } = await stage.look('pull')
    assert.deepEqual([lastOutcome?.outcome, lastOutcome?.node], ['failure', 'A'])
  })

  test('after a lost lease the next grant waits for the delay, also for new waiters', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const long = { times: { lockDelayMs: longMs } }
    await stage.granted('pull', 'A', { ttlMs: shortMs })
    await stage.lapsed('pull')
    assert.deepEqual(await stage.ask('pull', 'B', { wait: false, ...long }), {
      status: 'refused',
      holder: null,
    })
    await stage.queued('pull', 'C', 1, long)
    await stage.queued('pull', 'D', 2, long)
    await stage.queued('pull', 'C', 1)

    const delayMs = 150
    const short = { times: { lockDelayMs: delayMs } }
    const a = await stage.granted('deploy', 'A', { ttlMs: shortMs })
    await stage.lapsed('deploy')
    await stage.becomes('deploy', 'B', short)
    const { since } = (await stage.look('deploy')).holder!
    assert.ok(since >= a.expiresAt + delayMs - clockMs, `granted ${since - a.expiresAt} ms after the lease`)
  })

  test('a release or an unused grant causes no delay', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const times = { ...longTimes, lockDelayMs: longMs, takeUpMs: shortMs }
    const a = await stage.granted('pull', 'A')
    for (const node of ['dead', 'B']) await stage.ask('pull', node, { times })
    const end = { outcome: 'failure', value: null, terminal: false } as const
    await stage.store.release(keyOf('pull'), { ...named('A'), token: a.token }, end, times)
    await stage.becomes('pull', 'B', { times })
  })

  test('each dead waiter at the head costs one grant window and no more', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const [asleep, gone] = [4, 60]
    await inGrowingSpans('the first of those asleep was seen to have it', async (takeUpMs) => {
      const pull = `pull ${takeUpMs}`
      const times = { ...longTimes, takeUpMs }
      const a = await stage.granted(pull, 'A')
      for (let n = 0; n < gone; n++)
        await stage.ask(pull, `gone${n}`, { times: { ...times, waiterLeaseMs: 1 } })
      for (let n = 0; n < asleep; n++) await stage.ask(pull, `asleep${n}`, { times })
      await stage.ask(pull, 'B', { times })
      await stage.pass(5)
      const end = { outcome: 'failure', value: null, terminal: false } as const
      await stage.store.release(keyOf(pull), { ...named('A'), token: a.token }, end, times)
      const { holder } = await stage.look(pull)
      // The engine skips waiters whose wait was over.
      if (holder?.node !== 'asleep0') return undefined
      await until(
        'B is granted',
        async () => {
          await stage.store.sweep(100, times)
          return (await stage.look(pull)).holder?.node === 'B'
        },
        10_000 + asleep * takeUpMs,
      )
      const costMs = (await stage.look(pull)).holder!.since - holder.since
      assert.ok(costMs >= asleep * takeUpMs - clockMs, `${asleep} windows took ${costMs} ms`)
      // The next sweep comes between two windows, here within milliseconds; a busy machine gets more time.
      return costMs <= asleep * (takeUpMs + 250) || undefined
    })
  })
}

function nodes({ requesters }: Notified): readonly string[] {
  return requesters.map(({ node }) => node).toSorted()
}
