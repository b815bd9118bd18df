import assert from 'node:assert/strict'
import { test } from 'vitest'
import { inGrowingSpans } from '../../support/spans.ts'
import type { GuardsCandidate } from './opening.ts'
import { GuardStage, longMs, numberOf, shortMs, until } from './stage.ts'

/** The claim of a key: one caller runs it, and other callers learn its state. */
export function claimingContract({ open }: GuardsCandidate): void {
  test('the first caller runs a key; the next learns that it runs and for how long', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const first = await stage.run('report')
    assert.equal(first.attempt, 1)
    assert.ok(numberOf(first) > 0n)
    const second = await stage.claim('report', { leaseMs: 5 })
    assert.ok(second.status === 'running')
    assert.deepEqual(Object.keys(second).toSorted(), ['leaseEndsInMs', 'status'])
    assert.ok(second.leaseEndsInMs > longMs / 2 && second.leaseEndsInMs <= longMs)
    assert.ok(Number.isInteger(second.leaseEndsInMs))
  })

  test('claiming a done key returns the result exactly as it was stored', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const results = [null, 'null', '""', '{"b":1,"a":[1.0,"ä😀\\u0000"]}', `"${'x'.repeat(256_000)}"`]
    for (const [index, result] of results.entries()) {
      const { token } = await stage.run(`report ${index}`)
      assert.equal(await stage.settle(`report ${index}`, token, 'done', { result }), true)
      for (let n = 0; n < 2; n++)
        assert.deepEqual(await stage.claim(`report ${index}`), { status: 'done', result })
    }
  })

  test('a key whose run failed can be claimed at once, for the next attempt', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    let last = await stage.run('report')
    for (const attempt of [2, 3, 4]) {
      assert.equal(await stage.settle('report', last.token, 'failed'), true)
      const next = await stage.run('report')
      assert.equal(next.attempt, attempt)
      assert.ok(numberOf(next) > numberOf(last), 'the number rises')
      last = next
    }
  })

  test('a released run is forgotten, so the next attempt is the first', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const first = await stage.run('report')
    await stage.pass(5)
    assert.equal(await stage.settle('report', first.token, 'released'), true)
    assert.deepEqual(await stage.all(), [])
    const next = await stage.run('report')
    assert.equal(next.attempt, 1)
    assert.ok(numberOf(next) > numberOf(first), 'and its number has risen')
  })

  test('another caller takes over an expired claim as the next attempt; the late caller is refused', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const first = await stage.run('report', { leaseMs: shortMs })
    await stage.pass(shortMs)
    const next = await stage.run('report')
    assert.equal(next.attempt, 2)
    assert.ok(numberOf(next) > numberOf(first))
    for (const end of ['done', 'failed', 'released'] as const)
      assert.equal(await stage.settle('report', first.token, end, { result: '1' }), false)
    assert.equal(
      await stage.store.renew({ space: 'once', key: 'report', token: first.token }, longMs),
      undefined,
    )
    assert.equal(await stage.status('report'), 'running')
    assert.equal(await stage.settle('report', next.token, 'done', { result: '2' }), true)
    assert.deepEqual(await stage.claim('report'), { status: 'done', result: '2' })
  })

  test('a claim is not taken over before its lease ends', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    await inGrowingSpans('less and less was left', async (leaseMs) => {
      const key = `report ${leaseMs}`
      await stage.run(key, { leaseMs })
      let leftMs = leaseMs
      await until('the claim is taken over', async () => {
        const standing = await stage.claim(key)
        if (standing.status === 'run') return true
        assert.ok(standing.status === 'running')
        assert.ok(standing.leaseEndsInMs > 0 && standing.leaseEndsInMs <= leftMs, 'less and less is left')
        leftMs = standing.leaseEndsInMs
        return false
      })
      return leftMs < leaseMs || undefined
    })
  })

  test('at most once: an expired claim is stuck until an operator forgets the key', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const once = { mode: 'at-most-once', leaseMs: shortMs, keepMs: shortMs } as const
    const { token } = await stage.run('transfer', once)
    await stage.pass(shortMs * 2)
    assert.deepEqual(await stage.claim('transfer', once), { status: 'stuck' })
    assert.deepEqual(await stage.claim('transfer'), { status: 'stuck' }, 'by the mode of its claimer')
    assert.equal(await stage.store.forget('once', 'transfer'), true)
    assert.equal(await stage.store.forget('once', 'transfer'), false)
    const next = await stage.run('transfer', once)
    assert.equal(next.attempt, 1)
    assert.equal(await stage.settle('transfer', token, 'done'), false)
  })

  test('at most once: a caller that reports a failure lets the next one try', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('transfer', { mode: 'at-most-once' })
    assert.equal(await stage.settle('transfer', token, 'failed'), true)
    assert.equal((await stage.run('transfer', { mode: 'at-most-once' })).attempt, 2)
  })

  test('a take-over sets its own mode, times and fingerprint', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const first = await stage.run('transfer', { fingerprint: 'a', mode: 'at-least-once', leaseMs: shortMs })
    await stage.pass(shortMs)
    const own = { fingerprint: 'b', mode: 'at-most-once', leaseMs: shortMs, keepMs: shortMs } as const
    const second = await stage.run('transfer', own)
    assert.deepEqual([first.attempt, second.attempt], [1, 2])
    assert.equal(await stage.status('transfer', { fingerprint: 'a' }), 'mismatch')
    await stage.pass(shortMs)
    assert.equal(await stage.status('transfer', { fingerprint: 'b' }), 'stuck')
    assert.equal(await stage.settle('transfer', second.token, 'done'), true)
    await stage.pass(shortMs)
    assert.equal((await stage.run('transfer', { fingerprint: 'c' })).attempt, 1)
  })

  test('another fingerprint, or none, is a mismatch while the key runs, is done or is stuck', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    for (const [mine, others] of [
      ['a', ['b', 'A', 'a ', 'ä', null]],
      [null, ['', 'a', 'null']],
    ] as const) {
      const key = `pay ${mine}`
      const { token } = await stage.run(key, { fingerprint: mine })
      const check = async (status: string) => {
        for (const fingerprint of others)
          assert.deepEqual(await stage.claim(key, { fingerprint }), { status: 'mismatch' })
        assert.equal(await stage.status(key, { fingerprint: mine }), status)
      }
      await check('running')
      assert.equal(await stage.settle(key, token, 'done'), true)
      await check('done')
    }
    await stage.run('stuck', { fingerprint: 'a', mode: 'at-most-once', leaseMs: shortMs })
    await stage.pass(shortMs)
    assert.equal(await stage.status('stuck', { fingerprint: 'b' }), 'mismatch')
    assert.equal(await stage.status('stuck', { fingerprint: 'a' }), 'stuck')
  })

  test('a key whose run failed accepts any fingerprint', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const { token } = await stage.run('pay', { fingerprint: 'a' })
    await stage.settle('pay', token, 'failed')
    assert.equal((await stage.run('pay', { fingerprint: 'b' })).attempt, 2)
  })
}
