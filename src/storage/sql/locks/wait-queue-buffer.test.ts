import assert from 'node:assert/strict'
import { test } from 'vitest'
import { resolveLocksOptions } from '../../../locks/index.ts'
import {
  type AcquireRequest,
  acquire,
  type LockTimes,
  leave,
  type Rule,
  release,
  type Waiter,
  type WaitQueueRow,
} from '../../../locks/rules/index.ts'
import type { Procedure } from '../procedure.ts'
import { runRule } from './run-rule.ts'
import {
  openedHeadSize,
  WaitQueueBuffer,
  type WaitQueueCalls,
  type WaitQueueWrites,
} from './wait-queue-buffer.ts'

const now = 1_900_000_000_000
const times: LockTimes = resolveLocksOptions()

function waiterAt(seq: number): Waiter {
  return {
    node: `n${seq}`,
    requestId: 'r',
    seq,
    want: 'turn',
    ttlMs: 1_000,
    since: now,
    leaseEndsAt: now + 30_000,
    deadlineAt: null,
    isStreamed: false,
  }
}

function askOf(node: string): AcquireRequest {
  return { node, requestId: 'r', wait: true, want: 'turn', ttlMs: 1_000, deadlineMs: null, isStreamed: false }
}

function heldRow(node: string): WaitQueueRow {
  const holder = {
    ...{ node, requestId: 'r', token: 7, attempt: 1, since: now, ttlMs: 1_000, leaseEndsAt: now + 1_000 },
    ...{ takeUpBy: null, seq: 1, progress: '"half"' },
  }
  return { holder, attempt: 1, grantFrom: 0, revision: 20_000, lastOutcome: null }
}

/** A procedure that sends no statement. */
// biome-ignore lint/correctness/useYield: it has nothing to ask.
function* answering<Answer>(answer: Answer): Procedure<Answer> {
  return answer
}

function finish<Answer>(procedure: Procedure<Answer>): Answer {
  const { done, value } = procedure.next()
  assert.ok(done)
  return value as Answer
}

function step<Answer>(rule: Rule<Answer>, buffer: WaitQueueBuffer): Answer {
  return finish(runRule(rule, 'pull', () => buffer))
}

/** A wait queue with `length` waiters, of whom the first were read; it records every question. */
function createBook({ row, length = 0, hasOutcomes = false }: Opening) {
  const waiters = Array.from({ length }, (_, index) => waiterAt(index + 1))
  const trips: string[] = []
  const flushed: WaitQueueWrites[] = []
  const trip = (name: string, writes: WaitQueueWrites) => {
    trips.push(name)
    flushed.push(writes)
  }
  const calls: WaitQueueCalls = {
    find({ node }, writes) {
      trip('find', writes)
      const at = waiters.findIndex((waiter) => waiter.node === node)
      return answering({ waiter: waiters[at], before: at, outcome: undefined })
    },
    head(limit, writes) {
      trip('head', writes)
      const gone = new Set(flushed.flatMap(({ goneSeqs }) => goneSeqs))
      return answering(waiters.filter(({ seq }) => !gone.has(seq)).slice(0, limit))
    },
    countBefore(seq, writes) {
      trip('count', writes)
      return answering(waiters.filter((waiter) => waiter.seq < seq).length)
    },
    dissolve(_wants, _outcome, writes) {
      trip('dissolve', writes)
      return answering(waiters.length)
    },
    mintToken() {
      trips.push('mint')
      return answering(8)
    },
  }
  const buffer = new WaitQueueBuffer(calls, {
    operation: 'pull',
    now,
    row,
    dueAt: null,
    waiterCount: length,
    head: waiters.slice(0, openedHeadSize),
    hasOutcomes,
  })
  return { buffer, trips, flushed }
}

interface Opening {
  readonly row?: WaitQueueRow
  readonly length?: number
  readonly hasOutcomes?: boolean
}

test('taking a free wait queue needs one question, for the token', () => {
  const { buffer, trips } = createBook({})
  const { standing } = step(acquire(askOf('A'), times), buffer)
  assert.equal(standing.status, 'granted')
  assert.deepEqual(trips, ['mint'])
  const { queue, waiters, outcomes } = buffer.lastWrites()
  assert.deepEqual([queue?.row.holder?.node, queue?.waiterCount], ['A', 0])
  assert.deepEqual([waiters, outcomes], [[], []])
})

test('a failure passes a wait queue of thousands on with one question, for the token', () => {
  const { buffer, trips } = createBook({ row: heldRow('A'), length: 5_000 })
  const end = { outcome: 'failure', value: null, terminal: false } as const
  const { released } = step(release({ node: 'A', requestId: 'r', token: 7 }, end, times), buffer)
  assert.equal(released?.next?.node, 'n1')
  assert.deepEqual(trips, ['mint'])
  const { queue, goneSeqs } = buffer.lastWrites()
  assert.deepEqual([queue?.waiterCount, goneSeqs, queue?.writesProgress], [4_999, [1], true])
})

test('joining a wait queue of thousands takes one question and no count', () => {
  const { buffer, trips } = createBook({ row: heldRow('A'), length: 5_000 })
  const { standing } = step(acquire(askOf('new'), times), buffer)
  assert.deepEqual(standing, { status: 'queued', position: 5_001 })
  assert.deepEqual(trips, ['find'])
  const next = step(acquire(askOf('newer'), times), buffer)
  assert.deepEqual(next.standing, { status: 'queued', position: 5_002 })
  const again = step(acquire(askOf('new'), times), buffer)
  assert.deepEqual(again.standing, { status: 'queued', position: 5_001 })
  assert.deepEqual(trips, ['find', 'find'])
  const { queue, waiters } = buffer.lastWrites()
  assert.deepEqual([queue?.waiterCount, queue?.writesProgress], [5_002, false])
  assert.deepEqual(waiters.map(({ node }) => node).sort(), ['new', 'newer'])
})

test('a waiter far behind is found together with its position', () => {
  const { buffer, trips } = createBook({ row: heldRow('A'), length: 5_000 })
  const { standing } = step(acquire(askOf('n3000'), times), buffer)
  assert.deepEqual(standing, { status: 'queued', position: 3_000 })
  assert.deepEqual(trips, ['find'])
})

test('a waiter that leaves and returns in one transaction is written at its last position only', () => {
  const { buffer } = createBook({ row: heldRow('A'), length: 3 })
  const who = { node: 'n2', requestId: 'r' }
  step(leave(who, times), buffer)
  step(acquire(askOf('n2'), times), buffer)
  step(leave(who, times), buffer)
  const { standing } = step(acquire(askOf('n2'), times), buffer)
  assert.deepEqual(standing, { status: 'queued', position: 3 })
  const { goneSeqs, waiters, queue } = buffer.lastWrites()
  assert.ok(goneSeqs.includes(2) && goneSeqs.length === 2)
  assert.deepEqual(
    waiters.map(({ node, seq }) => [node, seq > 20_000]),
    [['n2', true]],
  )
  assert.equal(queue?.waiterCount, 3)
})

test('pending writes go before the next question', () => {
  const { buffer, trips, flushed } = createBook({ row: heldRow('A'), length: 200 })
  const seqs = Array.from({ length: openedHeadSize }, (_, nr) => nr + 1)
  for (const seq of seqs) finish(buffer.removeWaiter(waiterAt(seq)))
  assert.deepEqual(trips, [])
  assert.equal(finish(buffer.firstWaiter())?.seq, openedHeadSize + 1)
  assert.deepEqual(trips, ['head'])
  assert.deepEqual(flushed[0]?.goneSeqs, seqs)
  assert.deepEqual(buffer.lastWrites().goneSeqs, [])
})

test('a step that changed nothing has nothing to write', () => {
  const { buffer } = createBook({ row: heldRow('A') })
  const { standing } = step(acquire({ ...askOf('B'), wait: false }, times), buffer)
  assert.equal(standing.status, 'refused')
  assert.deepEqual(buffer.lastWrites(), {
    queue: undefined,
    goneSeqs: [],
    waiters: [],
    goneOutcomes: [],
    outcomes: [],
    results: [],
  })
})
