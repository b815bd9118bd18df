import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { GuardEnd } from '../../../src/once/guard-store.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import type { GuardsCandidate } from './opening.ts'
import { GuardStage, longMs, shortMs, until } from './stage.ts'

const ends = ['done', 'failed', 'released'] as const

/** The end of a claim, its renewal, and how long its result is known. */
export function settlingContract({ open }: GuardsCandidate): void {
  for (const end of ends)
    test(`a claim ends once: after ${end}, its token has no effect`, async () => {
      await using backend = await open()
      const stage = new GuardStage(backend)
      const { token } = await stage.run('report')
      assert.equal(await stage.settle('report', token, end, { result: end === 'done' ? '1' : null }), true)
      for (const again of ends) assert.equal(await stage.settle('report', token, again), false)
      assert.equal(await stage.store.renew({ space: 'once', key: 'report', token }, longMs), undefined)
      assert.equal(await stage.status('report'), end === 'done' ? 'done' : 'run')
    })

  test('a token of another claim neither ends nor renews a claim', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const [mine, other] = [await stage.run('report'), await stage.run('other')]
    const [number, nonce] = mine.token.split('.')
    const wrong = [
      other.token,
      `${number}.0123456789abcdef`,
      `${Number(number) + 1}.${nonce}`,
      '',
      'x',
      '1',
      `${mine.token}0`,
    ]
    for (const token of wrong) {
      for (const end of ends) assert.equal(await stage.settle('report', token, end), false, `with ${token}`)
      assert.equal(await stage.store.renew({ space: 'once', key: 'report', token }, longMs), undefined)
    }
    for (const end of ends) assert.equal(await stage.settle('unclaimed', mine.token, end), false)
    assert.equal(await stage.status('report'), 'running')
    assert.equal(await stage.settle('report', mine.token, 'done'), true)
  })

  test('a result is kept for its retention time, and then the key is new', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    await inGrowingSpans('the result was notified', async (keepMs) => {
      const key = `report ${keepMs}`
      const { token } = await stage.run(key, { keepMs })
      await stage.pass(keepMs)
      assert.equal(await stage.status(key), 'running', 'the time of a run is not that of its result')
      await stage.settle(key, token, 'done', { result: '7' })
      let doneCount = 0
      await until('the result is forgotten', async () => {
        const standing = await stage.claim(key, { keepMs: longMs })
        if (standing.status === 'run') {
          assert.equal(standing.attempt, 1)
          return true
        }
        assert.deepEqual(standing, { status: 'done', result: '7' })
        doneCount++
        return false
      })
      // Asking does not extend it either.
      return doneCount > 0 || undefined
    })
  })

  test('the attempt count is kept as long as a failure is kept', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const brief = { keepMs: shortMs }
    const { token } = await stage.run('said', brief)
    await stage.settle('said', token, 'failed')
    await stage.run('unsaid', { ...brief, leaseMs: shortMs })
    await stage.pass(shortMs * 2)
    await stage.pass(shortMs)
    assert.equal((await stage.run('said')).attempt, 1)
    assert.equal((await stage.run('unsaid')).attempt, 1)
  })

  test('a renewal extends a claim and never shortens it', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('report', { leaseMs: 2_000 })
    const ref = { space: 'once', key: 'report', token }
    const first = await stage.store.renew(ref, longMs)
    assert.ok(first !== undefined)
    assert.equal((await stage.look('report'))?.endsAt, first)
    assert.equal(await stage.store.renew(ref, 1), first)
    const standing = await stage.claim('report')
    assert.ok(standing.status === 'running' && standing.leaseEndsInMs > longMs / 2)
    const longer = await stage.store.renew(ref, longMs * 2)
    assert.ok(longer !== undefined && longer > first)
    assert.equal(await stage.settle('report', token, 'done'), true)
  })

  test('an expired claim cannot be renewed or ended, even if it was not claimed again', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('report', { leaseMs: shortMs })
    await stage.pass(shortMs)
    assert.equal(await stage.store.renew({ space: 'once', key: 'report', token }, longMs), undefined)
    for (const end of ends) assert.equal(await stage.settle('report', token, end), false)
    assert.equal((await stage.run('report')).attempt, 2)
  })

  for (const end of ends)
    test(`at most once: a late claimer may still report ${end}, because no other claimer began`, async () => {
      await using backend = await open()
      const stage = new GuardStage(backend)
      const { token } = await stage.run('transfer', { mode: 'at-most-once', leaseMs: shortMs })
      await stage.pass(shortMs)
      assert.equal(await stage.status('transfer'), 'stuck')
      assert.equal(await stage.settle('transfer', token, end, { result: end === 'done' ? '1' : null }), true)
      const after = await stage.claim('transfer')
      if (end === 'done') assert.deepEqual(after, { status: 'done', result: '1' })
      else assert.ok(after.status === 'run' && after.attempt === (end === 'failed' ? 2 : 1))
    })

  test('at most once: a late claimer may renew, and its claim runs again', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('transfer', { mode: 'at-most-once', leaseMs: shortMs })
    await stage.pass(shortMs)
    assert.ok(await stage.store.renew({ space: 'once', key: 'transfer', token }, longMs))
    assert.equal(await stage.status('transfer'), 'running')
  })

  test('a key in any state can be forgotten', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    assert.equal(await stage.store.forget('once', 'nothing'), false)
    await stage.run('running')
    const done = await stage.run('done')
    await stage.settle('done', done.token, 'done')
    const failed = await stage.run('failed')
    await stage.settle('failed', failed.token, 'failed')
    for (const key of ['running', 'done', 'failed']) {
      assert.equal(await stage.store.forget('once', key), true)
      assert.equal(await stage.store.forget('once', key), false)
      assert.equal((await stage.run(key)).attempt, 1)
    }
  })

  test('an expired key cannot be forgotten: it is gone already', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('done', { keepMs: shortMs })
    await stage.settle('done', token, 'done')
    await stage.run('ran out', { keepMs: shortMs, leaseMs: shortMs })
    await stage.run('kept', { keepMs: longMs, leaseMs: shortMs })
    await stage.pass(shortMs * 2)
    assert.equal(await stage.store.forget('once', 'done'), false)
    assert.equal(await stage.store.forget('once', 'ran out'), false)
    assert.equal(await stage.store.forget('once', 'kept'), true)
  })

  test('several ends of one call are answered in order, each on its own', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const [a, b, c] = [await stage.run('a'), await stage.run('b'), await stage.run('c')]
    const end = (
      key: string,
      token: string,
      how: GuardEnd['end'],
      result: string | null = null,
    ): GuardEnd => ({
      ...{ space: 'once', key, token, result },
      end: how,
    })
    const took = await stage.store.settle([
      end('b', b.token, 'failed'),
      end('a', b.token, 'done', '0'),
      end('a', a.token, 'done', '1'),
      end('a', a.token, 'released'),
      end('unknown', a.token, 'done'),
      end('c', c.token, 'released'),
    ])
    assert.deepEqual(took, [true, false, true, false, false, true])
    assert.deepEqual(await stage.claim('a'), { status: 'done', result: '1' })
    assert.equal((await stage.run('b')).attempt, 2)
    assert.equal((await stage.run('c')).attempt, 1)
    assert.deepEqual(await stage.store.settle([]), [])
  })
}
