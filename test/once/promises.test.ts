import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../src/core/errors.ts'
import { createOnce } from '../../src/once/index.ts'
import { brokenStore, openStage } from './stage.ts'

test('G1: of n concurrent claimers of a key, exactly one runs it', async () => {
  await using stage = openStage()
  const answers = await Promise.all(Array.from({ length: 50 }, () => stage.once.claim('report')))
  assert.equal(answers.filter(({ status }) => status === 'run').length, 1)
  assert.equal(answers.filter(({ status }) => status === 'running').length, 49)
})

test('G2: after done, every caller gets done and the result, until its retention ends', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const claim = await once.claim('report', { keepMs: '1h' })
  assert.ok(claim.status === 'run')
  await once.done('report', claim.token, { sent: 3, to: ['ä'] })
  const done = { status: 'done', result: { sent: 3, to: ['ä'] } }
  clock.advance(3_599_999)
  assert.deepEqual(await once.claim('report'), done)
  clock.advance(1)
  assert.equal((await once.claim('report')).status, 'run')
})

test('G3: a key whose claimer crashed is claimable after the lease and not before, or stuck, by mode', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  await once.claim('mail', { leaseMs: '30s', keepMs: '24h' })
  await once.claim('transfer', { leaseMs: '30s', mode: 'at-most-once' })
  clock.advance(29_999)
  assert.deepEqual(await once.claim('mail'), { status: 'running', retryInMs: 1 })
  clock.advance(1)
  const again = await once.claim('mail')
  assert.ok(again.status === 'run' && again.attempt === 2)
  assert.deepEqual(await once.claim('transfer'), { status: 'stuck' })
  clock.advance(365 * 86_400_000)
  assert.deepEqual(await once.claim('transfer'), { status: 'stuck' })
  assert.equal(await once.forget('transfer'), true)
  assert.equal((await once.claim('transfer')).status, 'run')
})

test('G4: a window runs from the call that was to notify, across minutes and days', async () => {
  // One millisecond before a minute, before a day, and in the middle of both.
  for (const start of [1_700_000_039_999, 1_700_006_399_950, 1_700_000_010_000]) {
    await using stage = openStage({}, start)
    const { once, clock } = stage
    const seen = async () =>
      (await once.seen({ subject: ['venue 1'], state: 'free' }, { windowMs: 60_000 })).seen
    assert.equal(await seen(), false)
    clock.advance(100)
    assert.equal(await seen(), true)
    clock.advance(59_899)
    assert.equal(await seen(), true, 'and the repeats did not prolong it')
    clock.advance(1)
    assert.equal(await seen(), false, 'what ends at t is over at t')
  }
})

test('G5: a late done with an old token is refused, and nothing changes', async () => {
  await using stage = openStage()
  const { once, clock } = stage
  const first = await once.claim('report', { leaseMs: 1_000 })
  clock.advance(1_000)
  const second = await once.claim('report')
  assert.ok(first.status === 'run' && second.status === 'run')
  for (const late of [
    once.done('report', first.token, 1),
    once.fail('report', first.token),
    once.renew('report', first.token),
  ])
    await assert.rejects(late, { code: 'lease_lost', status: 409 })
  assert.equal((await once.claim('report')).status, 'running')
  await once.done('report', second.token, 2)
  await assert.rejects(once.done('report', second.token, 3), { code: 'lease_lost' })
  assert.deepEqual(await once.claim('report'), { status: 'done', result: 2 })
})

test('G6: with the store down, the declared policy answers and nothing else, flagged and counted', async () => {
  const down = async () => {
    throw new SignalboxError('store_unavailable', 'gone')
  }
  const store = brokenStore({ claim: down, settle: down, renew: down, seen: down, prune: down })
  for (const whenDown of ['open', 'closed'] as const) {
    await using once = createOnce({ store }, { whenDown })
    const answers = [
      await once.claim('a'),
      ...(await once.claimMany(['a', 'b'])),
      await once.seen({ subject: ['v'], state: 1 }),
      await once.run('c', () => 'ran'),
      await once.processing('d', () => 'ran'),
    ]
    for (const answer of answers) assert.equal(answer.degraded, true)
    const kinds = answers.map((answer) =>
      'status' in answer ? answer.status : 'seen' in answer ? answer.seen : answer.ran,
    )
    assert.deepEqual(
      kinds,
      whenDown === 'open'
        ? ['run', 'run', 'run', false, true, true]
        : ['running', 'running', 'running', true, 'running', 'running'],
    )
    // Open: the two runs also report how they ended; the store ignores it.
    const count = whenDown === 'open' ? 8 : 6
    const { degraded, answers: byStatus, ...counters } = once.stats()
    assert.deepEqual([degraded, byStatus], [count, { degraded: { [whenDown]: count } }])
    assert.deepEqual(new Set(Object.values(counters)), new Set([0]), 'and counted as nothing else')
  }
})
