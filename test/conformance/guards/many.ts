import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { GuardsCandidate } from './opening.ts'
import { ask, digest, GuardStage, longMs, shortMs } from './stage.ts'

/** Many keys in one call: each is judged on its own and answered in order. */
export function manyContract({ open, isShared }: GuardsCandidate): void {
  test('keys of one call are answered in order, each by its own state', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const [done, failed, stuck] = [
      await stage.run('done'),
      await stage.run('failed'),
      await stage.run('stuck', { mode: 'at-most-once', leaseMs: shortMs }),
    ]
    await stage.settle('done', done.token, 'done', { result: '[1]' })
    await stage.settle('failed', failed.token, 'failed')
    await stage.run('ran out', { leaseMs: shortMs })
    await stage.run('running')
    await stage.run('printed', { fingerprint: 'x' })
    await stage.pass(shortMs)
    const keys = ['new', 'stuck', 'done', 'ran out', 'running', 'failed', 'printed']
    const standings = await stage.store.claim(keys.map((key) => ask(key)))
    assert.deepEqual(
      standings.map((standing) => [standing.status, standing.status === 'run' ? standing.attempt : '']),
      [
        ['run', 1],
        ['stuck', ''],
        ['done', ''],
        ['run', 2],
        ['running', ''],
        ['run', 2],
        ['mismatch', ''],
      ],
    )
    assert.equal(await stage.settle('stuck', stuck.token, 'done'), true)
    assert.deepEqual(await stage.store.claim([]), [])
  })

  test('a key that is twice in one call runs once', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const asks = ['a', 'b', 'a', 'a'].map((key) => ask(key))
    const statuses = (await stage.store.claim(asks)).map(({ status }) => status)
    assert.deepEqual(statuses, ['run', 'run', 'running', 'running'])
    const failed = await stage.run('failed')
    await stage.settle('failed', failed.token, 'failed')
    const again = await stage.store.claim([ask('failed'), ask('failed'), ask('failed', { fingerprint: 'x' })])
    assert.deepEqual(
      again.map(({ status }) => status),
      ['run', 'running', 'mismatch'],
    )
  })

  test('each key of a call has its own token and its own options', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const standings = await stage.store.claim([
      ask('a', { leaseMs: shortMs }),
      ask('b', { leaseMs: shortMs, mode: 'at-most-once' }),
      ask('c', { fingerprint: 'x' }),
      ask('a', { space: 'processing' }),
    ])
    const tokens = standings.map((standing) => (standing.status === 'run' ? standing.token : ''))
    assert.equal(new Set(tokens).size, 4)
    await stage.pass(shortMs)
    assert.equal((await stage.run('a')).attempt, 2)
    assert.equal(await stage.status('b'), 'stuck')
    assert.equal(await stage.status('c'), 'mismatch')
    assert.equal(await stage.settle('a', tokens[3]!, 'done', { space: 'processing' }), true)
  })

  test('1,000 keys are claimed and settled in one call each', { timeout: 60_000 }, async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const keys = Array.from({ length: 1_000 }, (_, n) => `${n} ${'k'.repeat(150)}`)
    const asks = keys.map((key) => ask(key))
    const first = await stage.store.claim(asks)
    assert.ok(first.every(({ status }) => status === 'run'))
    assert.ok((await stage.store.claim(asks)).every(({ status }) => status === 'running'))
    const took = await stage.store.settle(
      keys.map((key, n) => ({
        ...{ space: 'once', key, result: String(n) },
        token: (first[n] as { token: string }).token,
        end: n % 2 ? 'done' : 'failed',
      })),
    )
    assert.ok(took.every(Boolean))
    const after = await stage.store.claim(asks)
    for (const [n, standing] of after.entries()) {
      if (n % 2) assert.deepEqual(standing, { status: 'done', result: String(n) })
      else assert.ok(standing.status === 'run' && standing.attempt === 2)
    }
    const windows = keys.map((key) => ({ window: digest(key), value: '', windowMs: longMs }))
    assert.ok((await stage.store.seen(windows)).every((seen) => !seen))
    assert.ok((await stage.store.seen(windows)).every(Boolean))
    assert.equal((await stage.all('once', undefined, 300)).length, 1_000)
  })

  test('two backends that claim many keys in different orders run each key once', {
    timeout: 60_000,
  }, async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = isShared ? await open({ namespace }) : undefined
    const stores = [one.guards, two?.guards ?? one.guards]
    const keys = Array.from({ length: 100 }, (_, n) => `event ${n}`)
    const orders = [keys, keys.toReversed(), [...keys.slice(50), ...keys.slice(0, 50)]]
    const calls = Array.from({ length: 12 }, (_, n) => {
      const order = orders[n % 3]!
      return stores[n % 2]!.claim(order.map((key) => ask(key))).then((standings) =>
        order.filter((_, index) => standings[index]!.status === 'run'),
      )
    })
    const ran = (await Promise.all(calls)).flat()
    assert.deepEqual(ran.toSorted(), keys.toSorted())
    const asks = orders.map((order) =>
      order.map((key) => ({ window: digest(key), value: '', windowMs: longMs })),
    )
    const notified = await Promise.all(
      Array.from({ length: 12 }, (_, n) => stores[n % 2]!.seen(asks[n % 3]!)),
    )
    assert.equal(notified.flat().filter((seen) => !seen).length, 100)
  })
}
