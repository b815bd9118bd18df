import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { checkGuards } from './guard-checker.ts'
import { type GuardEvent, termsOf } from './guard-plan.ts'

const first = '1.00000000000000aa'
const second = '2.00000000000000bb'

/** What one claimer wrote down of one key. */
function claimer(key: string) {
  const claimed = (token: string, askedAt: number, kept = true): GuardEvent => ({
    type: 'claimed',
    key,
    token,
    askedAt,
    kept,
    t: askedAt + 1,
  })
  const alive = (token: string, t: number): GuardEvent => ({ type: 'alive', key, token, t })
  const ending = (token: string, t: number, end: 'done' | 'failed' = 'done'): GuardEvent => ({
    type: 'ending',
    key,
    token,
    end,
    t,
  })
  const ended = (
    token: string,
    t: number,
    took = true,
    end: 'done' | 'failed' = 'done',
  ): readonly GuardEvent[] => [ending(token, t, end), { type: 'ended', key, token, end, took, t: t + 1 }]
  const answered = (result: string, askedAt: number): GuardEvent => ({
    type: 'answered',
    key,
    status: 'done',
    result,
    askedAt,
    t: askedAt + 1,
  })
  const last = (status: string, t: number, result?: string): GuardEvent => ({
    type: 'last',
    key,
    status,
    result,
    t,
  })
  return { claimed, alive, ending, ended, answered, last }
}

function complaintsAbout(...events: readonly (GuardEvent | readonly GuardEvent[])[]): string {
  return checkGuards(events.flat() as GuardEvent[]).complaints.join('\n')
}

describe('for a key of kind "at least once" the checker', () => {
  const { claimed, alive, ending, ended, answered, last } = claimer('least-1')
  const { leaseMs } = termsOf('least-1')

  test('accepts run, done and answered, and a new run after a failure or an expired lease', () => {
    const done = [claimed(first, 0), alive(first, 200), ...ended(first, 300)]
    assert.equal(complaintsAbout(done, answered(first, 302), last('done', 5_000, first)), '')
    const failed = [claimed(first, 0), ...ended(first, 10, true, 'failed'), claimed(second, 20)]
    assert.equal(complaintsAbout(failed, last('run', 5_000)), '')
    assert.equal(complaintsAbout(claimed(first, 0), claimed(second, leaseMs + 1), last('run', 5_000)), '')
  })

  test('refuses two claimers at once', () => {
    const overlap = [claimed(first, 0), alive(first, 900), claimed(second, 500)]
    assert.match(complaintsAbout(overlap), /G1: 2.* was granted after 1.*, who still had it/)
  })

  test('refuses a claim before the lease of a dead claimer has expired', () => {
    assert.match(
      complaintsAbout(claimed(first, 0), claimed(second, leaseMs - 20)),
      /G3: .* whose lease had not ended/,
    )
  })

  test('refuses tokens that do not rise', () => {
    assert.match(complaintsAbout(claimed(second, 0), claimed(first, 900)), /G1: .* its number is not higher/)
  })

  test('refuses a run after done', () => {
    assert.match(
      complaintsAbout(claimed(first, 0), ended(first, 10), claimed(second, 900)),
      /G2: .* who had done it/,
    )
  })

  test('refuses a late end that was accepted, and accepts a refused one', () => {
    const taken = [claimed(first, 0), claimed(second, 500), ...ended(first, 600)]
    assert.match(complaintsAbout(taken), /G5: .* whose end was still accepted/)
    assert.equal(complaintsAbout(claimed(first, 0), claimed(second, 500), ended(first, 600, false)), '')
    const afterLease = ended(first, leaseMs + 10)
    assert.match(complaintsAbout(claimed(first, 0, false), afterLease), /G5: 1.* ended after its lease/)
    assert.equal(complaintsAbout(claimed(first, 0, true), afterLease), '')
  })

  test('refuses a result that no claimer wrote, or that another result replaced', () => {
    assert.match(
      complaintsAbout(claimed(first, 0), answered(first, 10)),
      /G2: the result 1.* no claimer had it/,
    )
    const replaced = [claimed(first, 0), ending(first, 399), claimed(second, 500), ...ended(second, 510)]
    assert.match(complaintsAbout(replaced, answered(first, 600)), /G2: the result 1.* after that of 2/)
  })

  test('refuses a key that is forgotten, stuck or running at the end', () => {
    assert.match(
      complaintsAbout(claimed(first, 0), ended(first, 10), last('run', 5_000)),
      /G2: 1.* had done it/,
    )
    assert.match(complaintsAbout(claimed(first, 0), last('stuck', 5_000)), /G3: it is stuck/)
    assert.match(complaintsAbout(claimed(first, 0), last('running', 5_000)), /G3: it is running/)
    assert.match(
      complaintsAbout(claimed(first, 0), last('done', 5_000, second)),
      /G2: at last the result is 2/,
    )
  })
})

test('accepts a new run after the result expired, not before', () => {
  const { claimed, ended } = claimer('short-1')
  const { keepMs } = termsOf('short-1')
  const done = [claimed(first, 0), ...ended(first, 10)]
  assert.equal(complaintsAbout(done, claimed(second, 10 + keepMs)), '')
  assert.match(complaintsAbout(done, claimed(second, keepMs - 10)), /G2: .* who had done it/)
})

test('at most once: the checker refuses a second run unless the first reported a failure', () => {
  const { claimed, ended, last } = claimer('most-1')
  assert.match(complaintsAbout(claimed(first, 0), claimed(second, 900)), /G3: .* at most once/)
  const failed = [claimed(first, 0), ...ended(first, 10, true, 'failed'), claimed(second, 20)]
  assert.equal(complaintsAbout(failed, last('stuck', 5_000)), '')
  assert.match(complaintsAbout(failed, last('run', 5_000)), /G3: 2.* left it, and it is run/)
})
