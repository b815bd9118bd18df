import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { checkLocks } from './lock-checker.ts'
import type { LockAnswer, LockCall, LockOperation } from './lock-operation.ts'

const times = { streamedTakeUpMs: 1_000, takeUpMs: 1_000 }
const ttlMs = 10_000
const clock = 1_000_000

/** A history, call by call; each call takes a millisecond unless the test marks others as concurrent. */
class Telling {
  readonly #operations: LockOperation[] = []
  #event = 1
  #now = clock

  get history(): readonly LockOperation[] {
    return this.#operations
  }

  pass(ms: number): this {
    this.#now += ms
    return this
  }

  /** One call after the other. */
  next(who: string, call: CallOf, answer?: LockAnswer): this {
    return this.beside([who, call, answer])
  }

  /** Calls that are all sent before any is answered, and answered in this order. */
  beside(...calls: readonly (readonly [who: string, call: CallOf, answer?: LockAnswer | undefined])[]): this {
    const sent = calls.map(() => this.#event++)
    const sentAt = this.#now
    this.#now += 1
    for (const [index, [who, call, answer]] of calls.entries()) {
      const whole = { ...call, ...(call.step !== 'inspect' && { who }) } as LockCall
      const span = { from: sent[index]!, to: this.#event++, sentAt, endedAt: this.#now }
      this.#operations.push({ client: who, queue: 'pull', call: whole, answer, ...span })
    }
    return this
  }

  /** The end of a lease that begins now. */
  expiresAt(ms: number = ttlMs): number {
    return this.#now + ms
  }
}

type CallOf = LockCall extends infer Call ? (Call extends LockCall ? Omit<Call, 'who'> : never) : never

const acquire = (options: Partial<Extract<LockCall, { step: 'acquire' }>> = {}): CallOf => ({
  step: 'acquire',
  wait: true,
  want: 'result',
  ttlMs,
  deadlineMs: null,
  isStreamed: false,
  ...options,
})
const end = (
  token: number,
  outcome: 'success' | 'failure',
  options: { readonly value?: string; readonly terminal?: boolean } = {},
): CallOf => ({ step: 'release', token, outcome, terminal: false, value: 'done', ...options })
const renew = (token: number): CallOf => ({ step: 'renew', token, ttlMs })
const inspect: CallOf = { step: 'inspect' }
const leave: CallOf = { step: 'leave' }
const keep: CallOf = { step: 'keep', isStreamed: false }

const queued = (position: number): LockAnswer => ({ is: 'queued', position })
const released = (next: string | null): LockAnswer => ({ is: 'released', next })
const completed: LockAnswer = { is: 'ended', kind: 'completed', value: 'done' }
const no: LockAnswer = { is: 'no' }

/** A is granted, B and C wait. */
function queueOfThree(): Telling {
  const telling = new Telling()
  return telling
    .next('A', acquire(), granted(telling, 1))
    .next('B', acquire(), queued(1))
    .next('C', acquire(), queued(2))
}

function granted(telling: Telling, token: number, attempt = 1): LockAnswer {
  return { is: 'granted', token, attempt, expiresAt: telling.expiresAt() }
}

function complaints(telling: Telling): readonly string[] {
  return checkLocks(telling.history, times).complaints
}

function accepts(telling: Telling): void {
  assert.deepEqual(complaints(telling), [])
}

/** Refused at the last call, and not before. */
function rejects(telling: Telling): void {
  const [complaint, ...others] = complaints(telling)
  assert.ok(complaint !== undefined, 'a history that no wait queue gives is refused')
  assert.deepEqual(others, [])
  const { from, to } = telling.history.at(-1)!
  assert.ok(complaint.includes(`(${from}–${to},`), `the last call is to blame, not: ${complaint}`)
}

describe('the checker of histories accepts', () => {
  test('failures that grant the next waiter, a success that notifies the rest, and a new turn', () => {
    const telling = queueOfThree().next('A', end(1, 'failure'), released('B'))
    telling
      .next('B', acquire(), granted(telling, 2, 2))
      .next('B', renew(2), { is: 'renewed', expiresAt: telling.expiresAt() })
      .next('X', inspect, { is: 'queue', holder: 'B', attempt: 2, waiters: ['C'] })
      .next('B', end(2, 'success'), released(null))
      .next('C', acquire(), completed)
      .next('C', acquire(), granted(telling, 3))
      .next('A', end(1, 'success'), no)
    accepts(telling)
  })

  test('a success that grants a turn to the first waiter that wants one', () => {
    const telling = new Telling()
    telling
      .next('A', acquire(), granted(telling, 1))
      .next('B', acquire(), queued(1))
      .next('C', acquire({ want: 'turn' }), queued(2))
      .next('D', acquire({ want: 'turn' }), queued(3))
      .next('A', end(1, 'success'), released('C'))
      .next('D', keep, queued(1))
      .next('B', acquire(), completed)
      .next('C', end(2, 'failure', { terminal: true, value: 'done' }), released(null))
      .next('D', acquire(), { is: 'ended', kind: 'failed', value: 'done' })
    accepts(telling)
  })

  test('concurrent calls that take effect in either order', () => {
    for (const [b, c] of [
      [1, 2],
      [2, 1],
    ] as const) {
      const telling = new Telling()
      telling
        .next('A', acquire(), granted(telling, 1))
        .beside(['B', acquire(), queued(b)], ['C', acquire(), queued(c)])
      accepts(telling)
    }
  })

  test('a call without an answer, with or without effect', () => {
    const lost = queueOfThree().next('A', end(1, 'failure'))
    accepts(lost.next('C', acquire(), queued(1)))
    accepts(queueOfThree().next('A', end(1, 'failure')).next('C', acquire(), queued(2)))
    const asked = new Telling().next('A', acquire())
    accepts(asked.next('B', acquire(), granted(asked, 1)))
    accepts(new Telling().next('A', acquire()).next('B', acquire(), queued(1)))
  })

  test('leases and grant windows that expire, in one step or in several', () => {
    const late = queueOfThree().pass(ttlMs + 100)
    accepts(late.next('C', acquire(), queued(1)))
    const offered = queueOfThree().next('A', end(1, 'failure'), released('B')).pass(2_000)
    accepts(offered.next('C', acquire(), granted(offered, 3, 2)))
    const swept = queueOfThree().pass(ttlMs + 1_500)
    accepts(swept.next('X', inspect, { is: 'queue', holder: 'C', attempt: 2, waiters: [] }))
    const unseen = queueOfThree().pass(ttlMs + 1_500)
    accepts(unseen.next('X', inspect, { is: 'queue', holder: null, attempt: null, waiters: ['B', 'C'] }))
  })

  test('a skipped or notified waiter that keeps its old position when it asks again', () => {
    const telling = queueOfThree()
      .next('D', acquire(), queued(3))
      .next('A', end(1, 'failure'), released('B'))
      .pass(2_000)
    telling.next('C', acquire(), granted(telling, 3, 2)).next('B', acquire(), queued(1))
    accepts(telling.next('D', acquire(), queued(2)))
  })

  test('deadlines that end a wait on time', () => {
    const telling = new Telling()
    telling
      .next('A', acquire(), granted(telling, 1))
      .next('B', acquire({ deadlineMs: 500 }), queued(1))
      .next('C', acquire(), queued(2))
      .pass(600)
      .next('C', acquire(), queued(1))
      .next('B', acquire(), { is: 'ended', kind: 'timeout', value: null })
    accepts(telling)
  })
})

describe('the checker of histories refuses', () => {
  test('two holders at once', () => {
    const telling = queueOfThree()
    rejects(telling.next('B', acquire(), granted(telling, 2)))
    const twice = new Telling()
    rejects(twice.beside(['A', acquire(), granted(twice, 1)], ['B', acquire(), granted(twice, 2)]))
    const early = queueOfThree().pass(ttlMs - 100)
    rejects(early.next('B', acquire(), granted(early, 2, 2)))
  })

  test('a token that was used before', () => {
    const telling = queueOfThree().next('A', end(1, 'failure'), released('B'))
    rejects(telling.next('B', acquire(), granted(telling, 1, 2)))
  })

  test('a token below an earlier one', () => {
    const telling = new Telling()
    telling.next('A', acquire(), granted(telling, 7)).next('A', end(7, 'success'), released(null))
    rejects(telling.next('B', acquire(), granted(telling, 6)))
  })

  test('two tokens for one grant', () => {
    const telling = queueOfThree()
    rejects(telling.next('A', acquire(), granted(telling, 2)))
  })

  test('a new waiter that passes an earlier one', () => {
    const telling = queueOfThree()
      .next('A', end(1, 'failure'), released('B'))
      .next('B', leave, { is: 'left' })
    rejects(telling.next('D', acquire({ wait: false }), granted(telling, 3, 2)))
    rejects(queueOfThree().next('D', acquire(), queued(1)))
  })

  test('a hand-over to the second waiter', () => {
    rejects(queueOfThree().next('A', end(1, 'failure'), released('C')))
    const lapsed = queueOfThree().pass(ttlMs + 100)
    rejects(lapsed.next('C', acquire(), granted(lapsed, 2, 2)))
  })

  test('positions that change their order', () => {
    rejects(queueOfThree().next('X', inspect, { is: 'queue', holder: 'A', attempt: 1, waiters: ['C', 'B'] }))
    rejects(queueOfThree().next('C', acquire(), queued(1)))
  })

  test('an accepted release or renewal by another node', () => {
    rejects(queueOfThree().next('B', end(1, 'failure'), released('B')))
    rejects(queueOfThree().next('A', end(2, 'failure'), released('B')))
    rejects(queueOfThree().next('B', renew(1), { is: 'renewed', expiresAt: clock + 2 * ttlMs }))
  })

  test('a refused release by the holder', () => {
    rejects(queueOfThree().next('A', end(1, 'failure'), no))
  })

  test('a holder that acts long after its lease expired', () => {
    rejects(
      queueOfThree()
        .pass(ttlMs + 100)
        .next('A', end(1, 'success'), released(null)),
    )
    const alone = new Telling()
    alone.next('A', acquire(), granted(alone, 1)).pass(ttlMs + 100)
    rejects(alone.next('A', renew(1), { is: 'renewed', expiresAt: alone.expiresAt() }))
    const renewed = queueOfThree()
    renewed.next('A', renew(1), { is: 'renewed', expiresAt: renewed.expiresAt() }).pass(ttlMs - 100)
    rejects(renewed.next('A', end(1, 'failure'), no))
  })

  test('a lease that ends at an impossible time', () => {
    const telling = new Telling()
    const expiresAt = telling.expiresAt(3 * ttlMs)
    rejects(telling.next('A', acquire(), { is: 'granted', token: 1, attempt: 1, expiresAt }))
  })

  test('a grant to a waiter that left', () => {
    const telling = queueOfThree().next('B', leave, { is: 'left' })
    rejects(telling.next('A', end(1, 'failure'), released('B')))
  })

  test('a waiter that is notified twice', () => {
    const telling = queueOfThree()
      .next('A', end(1, 'success'), released(null))
      .next('B', acquire(), completed)
    rejects(telling.next('B', acquire(), completed))
  })

  test('a waiter that is notified of an outcome that never happened', () => {
    rejects(queueOfThree().next('B', acquire(), completed))
    const other = queueOfThree().next('A', end(1, 'success', { value: 'other' }), released(null))
    rejects(other.next('B', acquire(), completed))
    const failed = queueOfThree().next('A', end(1, 'failure'), released('B'))
    rejects(failed.next('C', acquire(), completed))
  })

  test('a success that leaves a waiter unanswered', () => {
    const waits = queueOfThree().next('A', end(1, 'success'), released(null))
    rejects(waits.next('B', acquire(), queued(1)))
    const granted2 = queueOfThree().next('A', end(1, 'success'), released(null))
    rejects(granted2.next('C', acquire(), granted(granted2, 2)))
    rejects(
      queueOfThree()
        .next('A', end(1, 'success'), released(null))
        .next('X', inspect, { is: 'queue', holder: null, attempt: null, waiters: ['C'] }),
    )
  })

  test('a success that hands the lock to a waiter that wants the result', () => {
    rejects(queueOfThree().next('A', end(1, 'success'), released('B')))
  })

  test('a failure after which no waiter takes over', () => {
    rejects(queueOfThree().next('A', end(1, 'failure'), released(null)))
  })

  test('a position that is lost with the server that gave it', () => {
    const telling = queueOfThree().next('A', keep)
    rejects(telling.next('B', acquire(), queued(2)))
    rejects(queueOfThree().next('B', keep, no))
  })

  test('an attempt that is not counted, or counted twice', () => {
    const telling = queueOfThree().next('A', end(1, 'failure'), released('B'))
    rejects(telling.next('B', acquire(), granted(telling, 2, 1)))
    const again = queueOfThree().next('A', end(1, 'failure'), released('B')).pass(2_000)
    rejects(again.next('C', acquire(), granted(again, 3, 3)))
  })

  test('a deadline that comes too early, or never', () => {
    const queue = () => {
      const telling = new Telling()
      return telling
        .next('A', acquire(), granted(telling, 1))
        .next('B', acquire({ deadlineMs: 500 }), queued(1))
    }
    rejects(queue().pass(300).next('B', acquire(), { is: 'ended', kind: 'timeout', value: null }))
    rejects(queue().pass(700).next('B', acquire(), queued(1)))
  })

  test('a call without an answer that did more than it could', () => {
    const telling = queueOfThree().next('A', end(1, 'failure'))
    rejects(telling.next('C', acquire(), granted(telling, 2, 2)))
  })
})

test('the checker stops at a history with too many orders, counts it, and reports no error', () => {
  const telling = new Telling().beside(
    ...['a', 'b', 'c', 'd', 'e', 'f'].map((who) => [who, acquire(), undefined] as const),
  )
  const { complaints, counts } = checkLocks(telling.history, times, 10)
  assert.deepEqual([complaints, counts.undecided], [[], 1])
  assert.equal(checkLocks(telling.history, times).counts.undecided, 0)
})
