import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { SendingEnd } from '../monitor-store.ts'
import { codeOf, judgeAbandoned, judgeTry, SendingTally, type Tried } from './sending-outcome.ts'

function aTry(tried: Partial<Tried> = {}): Tried {
  const record = { id: 'n1', maxAttempts: 4 }
  return { record, attempt: 1, onAmbiguous: 'resend', retryMs: 5_000, digestId: null, ...tried }
}

/** The counts of one end, without zeros. */
function countsOf(end: SendingEnd): object {
  const tally = new SendingTally()
  tally.addEnd('slack', end)
  return Object.fromEntries(Object.entries(tally.counts().slack ?? {}).filter(([, count]) => count > 0))
}

const last = { attempt: 4 }
const reason = 'HTTP 500'

test('a failure is retried after the wait, or when the provider says, until no try is left', () => {
  const end = judgeTry(aTry({ attempt: 3 }), { kind: 'retry', reason })
  assert.equal(end.outcome, 'retry')
  assert.equal(end.afterMs, 5_000)
  assert.equal(end.free, undefined)
  assert.deepEqual(countsOf(end), { retried: 1 })
  assert.equal(judgeTry(aTry(), { kind: 'retry', reason, afterMs: 90_000 }).afterMs, 90_000)
  assert.equal(judgeTry(aTry(last), { kind: 'retry', reason }).outcome, 'dead')
})

test("a provider's request for silence, or a request that never started, costs no try", () => {
  for (const outcome of [
    { kind: 'retry', reason, penaltyMs: 1 } as const,
    { kind: 'unbegun', reason } as const,
  ]) {
    const end = judgeTry(aTry(last), outcome)
    assert.equal(end.outcome, 'retry')
    assert.equal(end.free, true)
    assert.deepEqual(countsOf(end), {})
  }
})

test('a refusal is final for one notification, and splits a digest', () => {
  assert.equal(judgeTry(aTry(), { kind: 'refused', reason }).outcome, 'dead')
  const end = judgeTry(aTry({ digestId: 'd1' }), { kind: 'refused', reason })
  assert.equal(end.outcome, 'retry')
  assert.equal(codeOf(end.error), 'refused_together')
  assert.equal(judgeTry(aTry({ ...last, digestId: 'd1' }), { kind: 'refused', reason }).outcome, 'dead')
})

test('an unknown outcome is counted, and sent again or held as the subscription chose', () => {
  const outcomes = [
    { kind: 'unknown', reason } as const,
    { kind: 'partly', reason, penaltyMs: undefined } as const,
  ]
  for (const outcome of outcomes) {
    const again = judgeTry(aTry(), outcome)
    assert.equal(again.outcome, 'retry')
    assert.equal(codeOf(again.error), 'ambiguous')
    assert.deepEqual(countsOf(again), { ambiguous: 1, retried: 1 })
    assert.equal(judgeTry(aTry(last), outcome).outcome, 'dead')
    assert.equal(judgeTry(aTry({ ...last, onAmbiguous: 'hold' }), outcome).outcome, 'held')
  }
  assert.equal(judgeAbandoned(aTry()), undefined, 'sent again at once')
  assert.equal(judgeAbandoned(aTry(last))?.outcome, 'dead')
  assert.equal(judgeAbandoned(aTry({ onAmbiguous: 'hold' }))?.outcome, 'held')
})

test('an unreadable error has no code', () => {
  for (const error of [null, '', 'nonsense', 'null', '{"code":7}']) assert.equal(codeOf(error), undefined)
})
