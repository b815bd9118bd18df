import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { createLocks } from '../../../src/locks/index.ts'
import type { Conflicts, Ruled } from '../../../src/locks/rules/index.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import type { LocksBackend } from './opening.ts'
import { type AskOptions, keyOf, longTimes, named, Stage, shortMs, until } from './stage.ts'

const conflicts: Conflicts = [
  ['pull', 'delete'],
  ['update', 'delete'],
]
const times = { ...longTimes, conflicts }

/** Operations that exclude each other on a resource have one common order of arrival. */
export function conflictsContract({ open, isShared }: LocksCandidate): void {
  test('excluding operations are not held at once, and the hand-over is one step', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    const pull = await stage.granted('pull', 'A')
    await stage.granted('update', 'U')
    await stage.queued('delete', 'D', 1)
    assert.deepEqual((await stage.finish('update', 'U', 'failure')).elsewhere, undefined)
    const { released, elsewhere, notified } = await stage.finish('pull', 'A', 'failure')
    assert.deepEqual(released, { next: null })
    assert.deepEqual(notified.requesters, [])
    assert.deepEqual(elsewhere, [
      { operation: 'delete', notified: { requesters: [named('D')], everyone: false, changed: true } },
    ])
    assert.equal((await stage.look('delete')).holder?.node, 'D')
    const { token } = await stage.granted('delete', 'D')
    assert.ok(token > pull.token, 'tokens rise over the operations of a resource')
    await stage.queued('pull', 'B', 1)
    await stage.queued('update', 'V', 1)
    const both = await stage.finish('delete', 'D', 'success')
    assert.deepEqual(both.elsewhere?.map(({ operation }) => operation).toSorted(), ['pull', 'update'])
    await stage.granted('pull', 'B')
    await stage.granted('update', 'V')
  })

  test('a new waiter does not pass an earlier waiter of an excluding operation', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('update', 'U')
    await stage.queued('delete', 'D', 1)
    assert.deepEqual(await stage.ask('pull', 'X', { wait: false }), { status: 'refused', holder: null })
    await stage.queued('pull', 'P', 1)
    await stage.queued('pull', 'Q', 2)
    await stage.queued('delete', 'E', 2)
    await stage.finish('update', 'U', 'success')
    await stage.granted('delete', 'D')
    const refused = await stage.ask('pull', 'X', { wait: false })
    assert.equal(refused.status === 'refused' && refused.holder?.node, 'D')
    await stage.queued('pull', 'P', 1)
    await stage.finish('delete', 'D', 'failure')
    // P and Q came before E.
    await stage.granted('pull', 'P')
    await stage.queued('delete', 'E', 1)
    await stage.queued('update', 'late', 1)
    await stage.finish('pull', 'P', 'failure')
    await stage.granted('pull', 'Q')
    await stage.finish('pull', 'Q', 'failure')
    await stage.granted('delete', 'E')
    await stage.finish('delete', 'E', 'failure')
    await stage.granted('update', 'late')
  })

  test('a success is notified to waiters for the same operation only', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1, { want: 'result' })
    await stage.queued('delete', 'D', 1, { want: 'result' })
    await stage.queued('pull', 'C', 2, { want: 'result' })
    const { notified, elsewhere } = await stage.finish('pull', 'A', 'success')
    assert.deepEqual([notified.everyone, notified.requesters], [true, []])
    assert.deepEqual(elsewhere?.[0]?.notified, { requesters: [named('D')], everyone: false, changed: true })
    for (const node of ['B', 'C'])
      assert.deepEqual(await stage.ask('pull', node), { status: 'ended', kind: 'completed', value: '1' })
    await stage.granted('delete', 'D')
  })

  test('a waiter that left, was evicted or was failed no longer blocks other waiters', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('update', 'U')
    const ends: [string, (key: ReturnType<typeof keyOf>) => Promise<Ruled<object>>][] = [
      ['leave', (key) => stage.store.leave(key, named('D'), times)],
      ['evict', (key) => stage.store.evict(key, named('D'), times)],
      [
        'fail',
        async (key) => {
          await stage.granted({ operation: 'other', resource: 'x' }, 'D')
          const [holder] = await stage.store.findWaitingHolders([{ operation: 'other', resource: 'x' }])
          return stage.store.fail(key, { ...named('D'), seq: holder!.seq }, '{"code":"deadlock"}', times)
        },
      ],
    ]
    for (const [name, end] of ends) {
      await stage.queued('delete', 'D', 1)
      await stage.queued('pull', name, 1)
      const { elsewhere } = await end(keyOf('delete'))
      assert.deepEqual(elsewhere?.[0]?.notified.requesters, [named(name)], name)
      await stage.granted('pull', name)
      await stage.finish('pull', name, 'success')
      // The requester reads its result; after that it may ask again.
      if (name !== 'leave') assert.equal((await stage.ask('delete', 'D')).status, 'ended')
    }
    const evicted = await stage
      .queued('delete', 'E', 1)
      .then(() => stage.store.evict(keyOf('update'), named('U'), times))
    assert.deepEqual(evicted.elsewhere?.[0]?.notified.requesters, [named('E')])
    await stage.granted('delete', 'E')
  })

  test('a sweep finds expired leases and waiters that stopped waiting', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('pull', 'A')
    await stage.queued('delete', 'D', 1)
    await stage.store.shorten(keyOf('pull'), { ...named('A'), token: stage.tokenOf('pull') }, shortMs, times)
    const notified = new Map<string, string[]>()
    const sweepUntil = (operation: string, node: string) =>
      until(`${node} is notified in ${operation}`, async () => {
        for (const { key, notified: whom } of await stage.store.sweep(100, times)) {
          const nodes = notified.get(key.operation) ?? []
          notified.set(key.operation, [...nodes, ...whom.requesters.map((who) => who.node)])
        }
        return notified.get(operation)?.includes(node) ?? false
      })
    await sweepUntil('delete', 'D')
    assert.deepEqual(notified.get('pull'), ['A'])
    await stage.granted('delete', 'D')

    await stage.queued('update', 'U', 1)
    await stage.finish('delete', 'D', 'failure')
    await stage.granted('update', 'U')
    await stage.queued('delete', 'dead', 1, { deadlineMs: 1_000 })
    await stage.queued('pull', 'P', 1)
    await sweepUntil('pull', 'P')
    assert.equal((await stage.look('pull')).holder?.node, 'P')
    assert.deepEqual(await stage.queue('delete'), [])
  })

  test('an unused grant goes to the next waiter in order of arrival, and any step detects it', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await inGrowingSpans('the first waiter was seen to have it', async (takeUpMs) => {
      const [pull, remove] = ['pull', 'delete'].map((operation) => ({ operation, resource: `${takeUpMs}` }))
      await stage.granted(pull!, 'A')
      await stage.queued(remove!, 'gone', 1)
      await stage.queued(pull!, 'B', 1)
      const end = { outcome: 'failure', value: null, terminal: false } as const
      const who = { ...named('A'), token: stage.tokenOf('pull') }
      await stage.store.release(pull!, who, end, { ...times, takeUpMs })
      if ((await stage.look(remove!)).holder?.node !== 'gone') return undefined
      await stage.pass(takeUpMs)
      await stage.granted(pull!, 'B')
      assert.equal((await stage.look(remove!)).holder, null)
      return true
    })
  })

  test('the delay after a lost lease also holds back excluding operations', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    const delayed = { ...times, lockDelayMs: 1_500 }
    await stage.granted('pull', 'A', { ttlMs: shortMs })
    await stage.lapsed('pull')
    const ask = { times: delayed }
    await stage.queued('delete', 'D', 1, ask)
    assert.equal((await stage.ask('update', 'U', ask)).status, 'queued', 'D came first')
    await stage.becomes('delete', 'D', ask)
    assert.equal((await stage.ask('update', 'U', ask)).status, 'queued')
  })

  test('a waiter that returns in time has its old position, also before other operations', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1, { want: 'result' })
    await stage.queued('delete', 'D', 1)
    await stage.finish('pull', 'A', 'success')
    await stage.granted('delete', 'D')
    await stage.queued('delete', 'E', 1)
    assert.equal((await stage.ask('pull', 'B')).status, 'ended')
    await stage.queued('pull', 'B', 1)
    await stage.finish('delete', 'D', 'failure')
    await stage.granted('pull', 'B')
    await stage.queued('delete', 'E', 1)
  })

  test('other resources, operations and namespaces are unaffected', async () => {
    await using backend = await open()
    const stage = new Play(backend)
    await stage.granted('pull', 'A')
    await stage.granted({ operation: 'delete', resource: 'another' }, 'A')
    await stage.granted('read', 'A')
    await stage.queued('delete', 'D', 1)
    const elsewhere = new Play(backend.within(aNamespace()))
    await elsewhere.granted('delete', 'D')
    await elsewhere.queued('pull', 'A', 1)
    assert.deepEqual(
      (await stage.store.list({ limit: 10 })).map(({ operation, holder, waiterCount }) => [
        operation,
        holder?.node ?? null,
        waiterCount,
      ]),
      [
        ['delete', 'A', 0],
        ['delete', null, 1],
        ['pull', 'A', 0],
        ['read', 'A', 0],
      ],
    )
  })

  test('a request that waits for an operation excluded by its own lock is a deadlock', async () => {
    await using backend = await open()
    await using locks = createLocks(partsOf(backend), { conflicts })
    await using held = await locks.hold('pull', 'app', { node: 'A' })
    await assert.rejects(held.hold('delete', 'app'), { code: 'conflict', details: { reason: 'deadlock' } })
    await using other = await held.hold('update', 'app')
    assert.ok(other.token > held.token)
  })

  test('excluding operations never overlap under load, and every waiter gets its turn', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = isShared ? await open({ namespace }) : undefined
    await using here = createLocks(partsOf(one), { conflicts })
    await using there = two ? createLocks(partsOf(two), { conflicts }) : undefined
    // Where no wake-up reaches the other process, the next waiter learns by asking now and then.
    const turnCount = one.traits.remoteWakeUps ? 6 : 3
    const held = new Map<string, number>()
    const overlaps: string[] = []
    const operations = ['pull', 'delete', 'update'] as const
    let turns = 0
    const work = async (worker: number) => {
      const locks = worker % 2 === 0 ? here : (there ?? here)
      for (let turn = 0; turn < turnCount; turn++) {
        const operation = operations[(worker + turn) % 3]!
        await using _ = await locks.hold(operation, 'app', { node: `n${worker}`, deadlineMs: 15_000 })
        const others = operations.filter((other) => (held.get(other) ?? 0) > 0)
        for (const other of others) {
          const excludes = conflicts.some((pair) => pair.includes(other) && pair.includes(operation))
          if (other === operation || excludes) overlaps.push(`${operation} with ${other}`)
        }
        held.set(operation, (held.get(operation) ?? 0) + 1)
        await sleep(1)
        held.set(operation, held.get(operation)! - 1)
        turns++
      }
    }
    await Promise.all(Array.from({ length: 6 }, (_, worker) => work(worker)))
    assert.deepEqual(overlaps, [])
    assert.equal(turns, 6 * turnCount)
  }, 40_000)
}

/** A stage on which the rules are in force. */
class Play extends Stage {
  readonly #tokens = new Map<string, number>()

  override async ask(...[queue, node, options]: Parameters<Stage['ask']>): ReturnType<Stage['ask']> {
    const whole: AskOptions = { want: 'turn', ...options, times: { conflicts, ...options?.times } }
    const standing = await super.ask(queue, node, whole)
    if (standing.status === 'granted') this.#tokens.set(keyOf(queue).operation, standing.token)
    return standing
  }

  tokenOf(operation: string): number {
    return this.#tokens.get(operation)!
  }

  /** Ends a turn under the rules. */
  finish(queue: string, node: string, outcome: 'success' | 'failure'): ReturnType<Stage['store']['release']> {
    const end = { outcome, value: '1', terminal: false }
    return this.store.release(keyOf(queue), { ...named(node), token: this.tokenOf(queue) }, end, times)
  }
}

function partsOf({ locks, notifier, traits }: LocksBackend): Parameters<typeof createLocks>[0] {
  return { store: locks, notifier, remoteWakeUps: traits.remoteWakeUps }
}
