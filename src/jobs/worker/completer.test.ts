import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import { resolveNewJob } from '../api/add-options.ts'
import type { AttemptOutcome, ClaimedRecord, JobStore, Verdict } from '../job-store.ts'
import { Attempt, type AttemptHost } from './attempt.ts'
import { Completer } from './completer.ts'

let number = 0

/** An attempt with a lease of this length; none of these tests runs its handler. */
function anAttempt(leaseMs = 60_000): Attempt {
  const { due: _, ...job } = resolveNewJob('add', 'mail', {}, {})
  const record: ClaimedRecord = {
    ...job,
    id: `job-${++number}`,
    token: `${number}.0123456789abcdef`,
    state: 'running',
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    runAt: 0,
    createdAt: 0,
    startedAt: 0,
    finishedAt: null,
    workerId: 'w',
    leaseEndsAt: leaseMs,
    result: null,
    error: null,
    cancelRequested: false,
    cancelIgnored: false,
  }
  const handler = { run: () => undefined, finish: 'any', group: 1 } as const
  return new Attempt({} as AttemptHost, record, handler, performance.now() + leaseMs)
}

const done = (attempt: Attempt): Verdict => attempt.judge({ kind: 'returned', result: null })

/** A store with scripted answers; a call without a script succeeds. */
function aStore(script: {
  settle?: (verdicts: readonly Verdict[], call: number) => readonly boolean[] | Promise<readonly boolean[]>
  outcomes?: (call: number) => readonly AttemptOutcome[] | Promise<readonly AttemptOutcome[]>
}) {
  const calls = { settle: [] as (readonly Verdict[])[], outcomes: 0 }
  const store = {
    async settle(verdicts: readonly Verdict[]) {
      calls.settle.push(verdicts)
      return script.settle?.(verdicts, calls.settle.length) ?? verdicts.map(() => true)
    },
    async outcomes() {
      calls.outcomes++
      assert.ok(script.outcomes, 'the store should not be asked')
      return script.outcomes(calls.outcomes)
    },
  } as unknown as JobStore
  const troubles: unknown[] = []
  return {
    calls,
    troubles,
    completer: new Completer(store, { onError: (error) => troubles.push(error) }),
  }
}

function settle(completer: Completer, attempt: Attempt): Promise<boolean> {
  const answer = new Promise<boolean>((resolve) => completer.settle(attempt, done(attempt), resolve))
  return within(5_000, 'the verdict', answer)
}

function confirm(completer: Completer, attempt: Attempt): Promise<{ committed: boolean; written: boolean }> {
  const answer = new Promise<{ committed: boolean; written: boolean }>((resolve) =>
    completer.confirm(attempt, done(attempt), (committed, written) => resolve({ committed, written })),
  )
  return within(5_000, 'the confirmation', answer)
}

const down = () => {
  throw new Error('the store is down')
}

test('verdicts of one turn are one write, and each learns whether it was accepted', async () => {
  const { completer, calls } = aStore({ settle: (verdicts) => verdicts.map((_, index) => index !== 1) })
  assert.deepEqual(await Promise.all([1, 2, 3].map(() => settle(completer, anAttempt()))), [
    true,
    false,
    true,
  ])
  assert.equal(calls.settle.length, 1)
  assert.equal(completer.size, 0)
})

test('verdicts that come while two writes are in flight go in the next, by the thousand', async () => {
  const gate = Promise.withResolvers<void>()
  const { completer, calls } = aStore({
    settle: async (verdicts) => {
      await gate.promise
      return verdicts.map(() => true)
    },
  })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const all = [settle(completer, anAttempt())]
  await turn()
  all.push(settle(completer, anAttempt()))
  await turn()
  all.push(...Array.from({ length: 1_500 }, () => settle(completer, anAttempt())))
  await turn()
  assert.equal(calls.settle.length, 2)
  gate.resolve()
  await Promise.all(all)
  assert.deepEqual(
    calls.settle.map((batch) => batch.length),
    [1, 1, 1_000, 500],
  )
})

test('a callback that throws is reported, and the other verdicts of its write learn their answer', async () => {
  const { completer, troubles } = aStore({})
  const first = anAttempt()
  completer.settle(first, done(first), () => {
    throw new Error('the listener failed')
  })
  assert.equal(await settle(completer, anAttempt()), true)
  await within(1_000, 'idle', completer.idle())
  assert.equal(troubles.length, 1)
})

test('a write whose answer was lost is repeated, and the outcomes show what the first one wrote', async () => {
  const { completer, calls, troubles } = aStore({
    settle: (verdicts, call) => (call === 1 ? down() : verdicts.map(() => false)),
    outcomes: () => ['settled', 'lost'],
  })
  assert.deepEqual(await Promise.all([settle(completer, anAttempt()), settle(completer, anAttempt())]), [
    true,
    false,
  ])
  assert.deepEqual([calls.settle.length, calls.outcomes, troubles.length], [2, 1, 1])
})

test('a first refusal is final: the store is not asked again', async () => {
  const { completer } = aStore({ settle: (verdicts) => verdicts.map(() => false) })
  assert.equal(await settle(completer, anAttempt()), false)
})

test('when only the outcomes could not be read, the write is repeated and they are read again', async () => {
  const { completer, calls } = aStore({
    settle: (verdicts, call) => (call === 1 ? down() : verdicts.map(() => false)),
    outcomes: (call) => (call === 1 ? down() : ['settled']),
  })
  assert.equal(await settle(completer, anAttempt()), true)
  assert.deepEqual([calls.settle.length, calls.outcomes], [3, 2])
})

test('the completer gives up a store that stays down when the lease is over, and is idle', async () => {
  const { completer, troubles } = aStore({ settle: down })
  const begunAt = performance.now()
  const answer = settle(completer, anAttempt(300))
  assert.equal(completer.size, 1)
  const idle = completer.idle()
  assert.equal(await answer, false)
  assert.ok(performance.now() - begunAt >= 300)
  await within(1_000, 'idle', idle)
  assert.ok(troubles.length >= 2)
})

test('idle waits for verdicts being written and confirmed, and otherwise for nothing', async () => {
  const gate = Promise.withResolvers<readonly AttemptOutcome[]>()
  const { completer } = aStore({ outcomes: () => gate.promise })
  await completer.idle()
  const confirmed = confirm(completer, anAttempt())
  let isIdle = false
  const idle = completer.idle().then(() => {
    isIdle = true
  })
  await settle(completer, anAttempt())
  assert.equal(isIdle, false)
  gate.resolve(['settled'])
  await confirmed
  await idle
})

test('a committed ack of the user’s transaction stays, and nothing is written', async () => {
  const { completer, calls } = aStore({ outcomes: () => ['settled'] })
  assert.deepEqual(await confirm(completer, anAttempt()), { committed: true, written: false })
  assert.equal(calls.settle.length, 0)
})

test('a rolled back ack is replaced by the verdict', async () => {
  const { completer, calls } = aStore({ outcomes: () => ['held'] })
  assert.deepEqual(await confirm(completer, anAttempt()), { committed: false, written: true })
  assert.equal(calls.settle.length, 1)
})

test('an ack that commits between the question and the verdict stays', async () => {
  const { completer, calls } = aStore({
    settle: () => [false],
    outcomes: (call) => (call === 1 ? ['held'] : ['settled']),
  })
  assert.deepEqual(await confirm(completer, anAttempt()), { committed: true, written: false })
  assert.deepEqual([calls.settle.length, calls.outcomes], [1, 2])
})

test('a lost lease gets neither ack nor verdict', async () => {
  const { completer } = aStore({ outcomes: () => ['lost'] })
  assert.deepEqual(await confirm(completer, anAttempt()), { committed: false, written: false })
})

test('while the store is down the completer does not guess: it asks until the store answers', async () => {
  const { completer, troubles } = aStore({ outcomes: (call) => (call < 3 ? down() : ['settled']) })
  assert.deepEqual(await confirm(completer, anAttempt()), { committed: true, written: false })
  assert.equal(troubles.length, 2)
})

test('the completer stops asking a store that is down for longer than the lease', async () => {
  const { completer } = aStore({ outcomes: down })
  assert.deepEqual(await confirm(completer, anAttempt(300)), { committed: false, written: false })
})

test('the completer pauses between questions to a store that contradicts itself', async () => {
  // "Held", and yet the verdict does not take: until the lease is over there is nothing to do but ask again.
  const { completer, calls } = aStore({ settle: () => [false], outcomes: () => ['held'] })
  assert.deepEqual(await confirm(completer, anAttempt(500)), { committed: false, written: false })
  assert.ok(calls.outcomes < 50, `${calls.outcomes} questions`)
})
