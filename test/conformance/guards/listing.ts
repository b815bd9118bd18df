import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { GuardsCandidate } from './opening.ts'
import { GuardStage, longMs, shortMs } from './stage.ts'

/** The list of keys for operators, and pruning. */
export function listingContract({ open, isShared }: GuardsCandidate): void {
  test('a list shows the state of each key, its start and its end', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token: done } = await stage.run('done', {
      mode: 'at-most-once',
      leaseMs: longMs,
      keepMs: 2 * longMs,
    })
    await stage.settle('done', done, 'done', { result: '"secret"' })
    const { token: failed } = await stage.run('failed')
    await stage.settle('failed', failed, 'failed')
    await stage.run('ran out', { leaseMs: shortMs, keepMs: longMs })
    await stage.run('stuck', { mode: 'at-most-once', leaseMs: shortMs })
    await stage.run('running')
    await stage.pass(shortMs)
    const guards = await stage.all()
    assert.deepEqual(
      guards.map(({ key, status, mode, attempt }) => [key, status, mode, attempt]),
      [
        ['done', 'done', 'at-most-once', 1],
        ['failed', 'failed', 'at-least-once', 1],
        ['ran out', 'failed', 'at-least-once', 1],
        ['running', 'running', 'at-least-once', 1],
        ['stuck', 'stuck', 'at-most-once', 1],
      ],
    )
    for (const guard of guards) {
      assert.deepEqual(Object.keys(guard).toSorted(), [
        ...['attempt', 'claimedAt', 'endsAt', 'key', 'mode', 'status'],
      ])
      const { claimedAt, endsAt, key } = guard
      assert.ok(Number.isInteger(claimedAt) && Math.abs(claimedAt - Date.now()) < 60_000)
      if (key === 'stuck') assert.equal(endsAt, null)
      else {
        assert.ok(endsAt !== null && Number.isInteger(endsAt))
        const keptMs = endsAt - claimedAt - (key === 'done' ? longMs : 0)
        assert.ok(keptMs >= longMs && keptMs < longMs + 60_000, `${key} is kept ${keptMs} ms`)
      }
    }
    assert.deepEqual(await stage.all('processing'), [])
  })

  test('the list shows the attempt number of a key, and the start of that attempt', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('a')
    const before = await stage.look('a')
    await stage.pass(5)
    await stage.settle('a', token, 'failed')
    await stage.run('a')
    const after = await stage.look('a')
    assert.deepEqual([before?.attempt, after?.attempt], [1, 2])
    assert.ok(after!.claimedAt > before!.claimedAt)
  })

  test('a list comes in pages, each key on one of them', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const keys = Array.from({ length: 25 }, (_, n) => `key ${String.fromCharCode(97 + n)} é😀`)
    for (const key of keys) await stage.run(key)
    for (const pageSize of [1, 7, 25, 100]) {
      const found = (await stage.all('once', undefined, pageSize)).map(({ key }) => key)
      assert.deepEqual(found, keys, `in pages of ${pageSize}`)
    }
  })

  test('a list can be filtered by a text that the key contains, case included', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    for (const key of ['pay:100%', 'pay:100', 'Pay:7', 'a_b', 'aXb', '[x]', '*', 'été', 'ete'])
      await stage.run(key)
    const found = async (search: string) => (await stage.all('once', search)).map(({ key }) => key)
    assert.deepEqual(await found('100%'), ['pay:100%'])
    assert.deepEqual(await found('pay:'), ['pay:100', 'pay:100%'])
    assert.deepEqual(await found('a_b'), ['a_b'])
    assert.deepEqual(await found('%'), ['pay:100%'])
    assert.deepEqual(await found('*'), ['*'])
    assert.deepEqual(await found('[x'), ['[x]'])
    assert.deepEqual(await found('é'), ['été'])
    assert.deepEqual(await found('zzz'), [])
  })

  test('expired keys are not listed, even before they are pruned', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const brief = { leaseMs: shortMs, keepMs: shortMs }
    const { token: done } = await stage.run('done', { ...brief, leaseMs: longMs })
    await stage.settle('done', done, 'done')
    const { token: failed } = await stage.run('failed', { ...brief, leaseMs: longMs })
    await stage.settle('failed', failed, 'failed')
    await stage.run('ran out', brief)
    await stage.run('stuck', { ...brief, mode: 'at-most-once' })
    await stage.run('running', { keepMs: shortMs })
    await stage.pass(2 * shortMs)
    const left = ['running', 'stuck']
    const listed = async () => (await stage.all()).map(({ key }) => key)
    assert.deepEqual(await listed(), left)
    await stage.pruneAll(1)
    assert.deepEqual(await listed(), left)
    assert.deepEqual([await stage.status('running'), await stage.status('stuck')], left)
  })

  test('pruning deletes expired keys only, in any number of steps', async () => {
    const namespace = aNamespace()
    await using backend = await open({ namespace })
    await using other = isShared ? await open() : undefined
    const stage = new GuardStage(backend)
    const brief = { leaseMs: shortMs, keepMs: shortMs }
    const elsewhere = new GuardStage(other ?? backend.within(aNamespace()))
    for (let n = 0; n < 4; n++) {
      await stage.run(`ran out ${n}`, brief)
      await stage.run(`kept ${n}`, { ...brief, keepMs: longMs })
      await stage.run(`stuck ${n}`, { ...brief, mode: 'at-most-once' })
      const { token } = await stage.run(`done ${n}`, { ...brief, leaseMs: longMs })
      await stage.settle(`done ${n}`, token, 'done')
      await stage.seen(`short ${n}`, { windowMs: shortMs })
      await stage.seen(`long ${n}`)
    }
    await elsewhere.run('theirs', brief)
    await stage.pass(2 * shortMs)
    const pruned = await stage.pruneAll(5)
    assert.ok(
      pruned === 12 || pruned === 0,
      `${pruned} are all twelve, or none where the engine forgets itself`,
    )
    assert.equal(await stage.pruneAll(), 0)
    assert.equal((await stage.all()).length, 8)
    for (let n = 0; n < 4; n++) {
      assert.equal((await stage.run(`kept ${n}`)).attempt, 2)
      assert.equal(await stage.status(`stuck ${n}`), 'stuck')
      assert.equal(await stage.seen(`long ${n}`), true)
      assert.equal(await stage.seen(`short ${n}`), false)
    }
    assert.ok((await elsewhere.pruneAll()) <= 1)
  })
}
