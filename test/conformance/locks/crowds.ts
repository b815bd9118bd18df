import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type LocksCandidate } from '../candidates.ts'
import { inHands, keyOf, longTimes, named, Stage } from './stage.ts'

/**
 * Many at once. `LOCKS_CROWD=2000 npx vitest run test/conformance -t "come at once"` makes the drained wait queue as
 * long as the product promises.
 */
const crowd = Number(process.env.LOCKS_CROWD ?? 300)
const crowdMs = 60_000 + 60 * crowd

export function crowdsContract({ open, isShared }: LocksCandidate): void {
  test('of 200 callers that come at once one is granted, and 199 wait in one order', {
    timeout: crowdMs,
  }, async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = isShared ? await open({ namespace }) : undefined
    const stages = [new Stage(one), new Stage(two ?? one)]
    const nodes = Array.from({ length: 200 }, (_, n) => `n${n}`)
    const standings = await Promise.all(nodes.map((node, n) => stages[n % 2]!.ask('pull', node)))
    const granted = nodes.filter((_, n) => standings[n]!.status === 'granted')
    assert.equal(granted.length, 1)
    const byPosition = new Map<number, string>()
    for (const [n, standing] of standings.entries())
      if (standing.status === 'queued') byPosition.set(standing.position, nodes[n]!)
    const order = Array.from({ length: 199 }, (_, n) => byPosition.get(n + 1))
    assert.deepEqual(await stages[0]!.queue('pull'), order, 'every waiter has the position of its answer')
    assert.deepEqual(await stages[1]!.queue('pull'), order)
    const again = await Promise.all(nodes.map((node, n) => stages[(n + 1) % 2]!.ask('pull', node)))
    assert.deepEqual(again.map(placeOf), standings.map(placeOf), 'and keeps it when all ask again')
  })

  test('a long wait queue, whose members come at once, drains in order with no inversion', {
    timeout: crowdMs,
  }, async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    let { token } = await stage.granted('pull', 'first')
    const nodes = Array.from({ length: crowd }, (_, n) => `n${n}`)
    const arrival = new Map<string, number>()
    await inHands(nodes, 20, async (node) => {
      const standing = await stage.ask('pull', node, { want: 'turn' })
      assert.ok(standing.status === 'queued')
      arrival.set(node, standing.position)
    })
    const order = nodes.toSorted((a, b) => arrival.get(a)! - arrival.get(b)!)
    assert.deepEqual(await stage.queue('pull'), order)
    let holder = 'first'
    for (const [n, node] of order.entries()) {
      const { released, notified } = await stage.end('pull', holder, token, n % 2 ? 'success' : 'failure')
      assert.deepEqual(released, { next: named(node) })
      assert.deepEqual(
        notified,
        { requesters: [named(node)], everyone: false, changed: true },
        'one is woken',
      )
      const next = await stage.granted('pull', node)
      assert.ok(next.token > token)
      token = next.token
      holder = node
    }
    assert.deepEqual((await stage.end('pull', holder, token, 'success')).released, { next: null })
  })

  test('a success clears a wait queue of 2,000 in one step and notifies each waiter once', {
    timeout: crowdMs,
  }, async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { token } = await stage.granted('pull', 'first')
    const nodes = Array.from({ length: 2_000 }, (_, n) => `n${n}`)
    await inHands(nodes, 50, (node) => stage.ask('pull', node))
    assert.equal((await stage.look('pull')).waiterCount, 2_000)
    const { released, notified } = await stage.end('pull', 'first', token, 'success')
    assert.deepEqual([released, notified.everyone], [{ next: null }, true])
    assert.deepEqual([await stage.queue('pull'), (await stage.look('pull')).waiterCount], [[], 0])
    const hundred = nodes.filter((_, n) => n % 20 === 0)
    const ends: string[] = []
    await inHands(hundred, 20, async (node) => {
      const standing = await stage.ask('pull', node, { wait: false })
      ends.push(standing.status === 'ended' ? standing.kind : standing.status)
    })
    assert.deepEqual(new Set(ends), new Set(['completed']))
    const again = await Promise.all(
      hundred.slice(0, 5).map((node) => stage.ask('pull', node, { wait: false })),
    )
    assert.deepEqual(again.map(({ status }) => status).toSorted(), [
      'granted',
      ...Array.from({ length: 4 }, () => 'refused'),
    ])
  })

  test('a wait queue never exceeds its limit, however many callers join at once', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const times = { maxWaiters: 5 }
    await stage.granted('pull', 'A')
    const nodes = Array.from({ length: 20 }, (_, n) => `n${n}`)
    const standings = await Promise.all(nodes.map((node) => stage.ask('pull', node, { times })))
    const full = standings.filter(({ status }) => status === 'full')
    assert.deepEqual(full, Array(15).fill({ status: 'full', waiters: 5 }))
    const queue = await stage.queue('pull')
    assert.equal(queue.length, 5)
    for (const [index, node] of queue.entries()) await stage.queued('pull', node, index + 1, { times })
    await stage.store.leave(keyOf('pull'), named(queue[0]!), longTimes)
    await stage.queued('pull', 'late', 5, { times })
    assert.deepEqual(await stage.ask('pull', 'later', { times }), { status: 'full', waiters: 5 })
    assert.equal((await stage.ask('pull', 'never', { times, wait: false })).status, 'refused')
  })

  test('one request that is sent many times at once counts once', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const asks = (node: string) => Promise.all(Array.from({ length: 20 }, () => stage.ask('pull', node)))
    const granted = await asks('A')
    const tokens = new Set(granted.map((standing) => (standing.status === 'granted' ? standing.token : 0)))
    assert.equal(tokens.size, 1)
    assert.deepEqual(await asks('B'), Array(20).fill({ status: 'queued', position: 1 }))
    const [token] = tokens
    const ends = await Promise.all(
      Array.from({ length: 20 }, () => stage.end('pull', 'A', token!, 'failure')),
    )
    assert.equal(ends.filter(({ released }) => released !== undefined).length, 1)
    assert.equal((await stage.granted('pull', 'B')).attempt, 2)
  })

  test('wait queues of one resource and of many are granted side by side', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const keys = Array.from({ length: 100 }, (_, n) => ({
      operation: `op${n % 5}`,
      resource: `r${n % 20}/${n}`,
    }))
    const turns = await Promise.all(keys.map((key) => stage.granted(key, 'A')))
    const ends = await Promise.all(keys.map((key, n) => stage.end(key, 'A', turns[n]!.token, 'success')))
    assert.ok(ends.every(({ released }) => released !== undefined))
    const later = await Promise.all(keys.map((key) => stage.granted(key, 'A')))
    for (const [n, { token }] of later.entries()) assert.ok(token > turns[n]!.token)
  })
}

function placeOf(standing: { readonly status: string; readonly position?: number; readonly token?: number }) {
  const { status, position, token } = standing
  return { status, position, token }
}
