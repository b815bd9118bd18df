import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findVictims } from './deadlock-detector.ts'
import type { LockKey, WaitingHolder } from './lock-store.ts'

const queue = (operation: string): LockKey => ({ operation, resource: 'r' })
const alone = (key: LockKey) => [key]

/** `A:a>b@5` is A, who holds a and waits for b at position 5. */
function holder(text: string): WaitingHolder {
  const [, node, holds, waitsFor, seq] = /^(\w+):(\w+)>(\w+)@(\d+)$/.exec(text)!
  return {
    who: { node: node!, requestId: 'q' },
    holds: queue(holds!),
    token: 1,
    waitsFor: queue(waitsFor!),
    seq: Number(seq),
  }
}

function victims(texts: readonly string[], blocking: Parameters<typeof findVictims>[1] = alone): string[] {
  return findVictims(texts.map(holder), blocking)
    .map(({ who, waitsFor }) => `${who.node} for ${waitsFor.operation}`)
    .toSorted()
}

test('two requesters that wait for each other are a deadlock, and the younger wait ends', () => {
  assert.deepEqual(victims(['A:a>b@5', 'B:b>a@7']), ['B for a'])
  assert.deepEqual(victims(['A:a>b@9', 'B:b>a@7']), ['A for b'])
})

test('a chain that does not return to its start is no deadlock', () => {
  assert.deepEqual(victims(['A:a>b@5', 'B:b>c@7', 'C:c>d@8']), [])
  assert.deepEqual(victims([]), [])
})

test('one victim breaks a circle of many, and waits that lead into it are unaffected', () => {
  assert.deepEqual(victims(['X:x>a@99', 'A:a>b@1', 'B:b>c@3', 'C:c>a@2', 'Y:y>x@98']), ['B for c'])
})

test('separate circles have a victim each', () => {
  assert.deepEqual(victims(['A:a>b@1', 'B:b>a@2', 'C:c>d@4', 'D:d>c@3']), ['B for a', 'C for d'])
})

test('circles that share a wait are both broken by ending it when it is the youngest', () => {
  // A waits for b and c; both of their holders wait for a.
  assert.deepEqual(victims(['A:a>b@8', 'A:a>c@9', 'B:b>a@1', 'C:c>a@2']), ['A for b', 'A for c'])
  assert.deepEqual(victims(['A:a>b@1', 'B:b>c@9', 'C:c>a@2', 'C:c>b@3']), ['B for c'])
})

test('a holder of several wait queues counts once, and its wait ends once', () => {
  assert.deepEqual(victims(['A:a>b@9', 'A:a2>b@9', 'B:b>a@1', 'B:b>a2@2']), ['A for b'])
})

test('the same node with another requestId is another requester', () => {
  const [a, b] = ['A:a>b@5', 'B:b>a@7'].map(holder) as [WaitingHolder, WaitingHolder]
  const other = { ...b, who: { node: 'A', requestId: 'other' } }
  assert.equal(findVictims([a, other], alone).length, 1)
  assert.equal(findVictims([a, { ...other, holds: queue('z') }], alone).length, 0)
})

test('an excluding wait queue blocks too, also for a requester that holds it itself', () => {
  const excluding = (key: LockKey) => [key, queue(key.operation === 'pull' ? 'delete' : 'pull')]
  assert.deepEqual(victims(['A:pull>delete@5'], excluding), ['A for delete'])
  assert.deepEqual(victims(['A:pull>delete@5']), [])
})

test('thousands in one circle are found quickly', () => {
  const many = 2_000
  const holders = Array.from({ length: many }, (_, at) => holder(`N${at}:l${at}>l${(at + 1) % many}@${at}`))
  const began = performance.now()
  assert.equal(findVictims(holders, alone)[0]!.who.node, `N${many - 1}`)
  assert.ok(performance.now() - began < 1_000)
})
