import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import type { QueueLimits } from '../../jobs/index.ts'
import { decodeLimits, LimitPlan, wholeQueue } from './limit-plan.ts'

const none: QueueLimits = { concurrency: null, rate: null, perKey: null }

function planOf(limits: Partial<QueueLimits>, running: Record<string, number> = {}, now = 0): LimitPlan {
  return new LimitPlan({
    now,
    limits: { ...none, ...limits },
    running: new Map(Object.entries(running)),
    starts: new Map(),
  })
}

const jobs = (...keys: (string | null)[]) => keys.map((limitKey) => ({ limitKey }))
const keysOf = (taken: readonly { limitKey: string | null }[]) => taken.map(({ limitKey }) => limitKey)

test('a queue gives as many jobs as its concurrency leaves, whatever the keys', () => {
  const plan = planOf({ concurrency: 5 }, { a: 2, [wholeQueue]: 1 })
  assert.equal(plan.capacity, 2)
  assert.deepEqual(keysOf(plan.take(jobs('a', 'b', null), 10)), ['a', 'b'])
  assert.equal(plan.capacity, 0)
})

test('a key without a free slot is skipped and blocks no other', () => {
  const plan = planOf({ perKey: { concurrency: 2, rate: null } }, { a: 1 })
  assert.deepEqual(keysOf(plan.take(jobs('a', 'a', 'a', 'b', null, 'b', 'b'), 10)), ['a', 'b', null, 'b'])
})

test('a plan never takes more than was asked for', () => {
  assert.equal(planOf({ concurrency: 100 }).take(jobs('a', 'b', 'c'), 2).length, 2)
})

test('more running jobs than allowed leave no free slot, and not a negative number', () => {
  assert.equal(planOf({ concurrency: 2 }, { a: 5 }).capacity, 0)
})

test('whatever the times of claims, no period has more starts than the rate allows', () => {
  fc.assert(
    fc.property(
      fc.record({
        count: fc.integer({ min: 1, max: 20 }),
        perMs: fc.integer({ min: 10, max: 5_000 }),
        steps: fc.array(
          fc.record({ waitMs: fc.nat({ max: 2_000 }), asks: fc.integer({ min: 1, max: 10 }) }),
          {
            maxLength: 60,
          },
        ),
      }),
      ({ count, perMs, steps }) => {
        const starts = new Map<string, string>()
        const begun: number[] = []
        let now = 1_000_000
        for (const { waitMs, asks } of steps) {
          now += waitMs
          const plan = new LimitPlan({
            now,
            limits: { ...none, rate: { count, perMs } },
            running: new Map(),
            starts,
          })
          for (const _ of plan.take(jobs(...Array<null>(asks).fill(null)), asks)) begun.push(now)
          for (const [key, kept] of plan.kept()) starts.set(key, kept)
        }
        for (const at of begun) {
          const inSpan = begun.filter((other) => other > at - perMs && other <= at).length
          assert.ok(inSpan <= count, `${inSpan} starts in ${perMs} ms`)
        }
      },
    ),
  )
})

test('a used up rate is available again after its period and a sixtieth', () => {
  const limits = { ...none, rate: { count: 3, perMs: 600 } }
  const first = new LimitPlan({ now: 1_000, limits, running: new Map(), starts: new Map() })
  first.take(jobs(null, null, null), 3)
  const at = (now: number) =>
    new LimitPlan({ now, limits, running: new Map(), starts: first.kept() }).capacity
  assert.equal(at(1_599), 0)
  assert.equal(at(1_000 + 600 + 10), 3)
})

test('unreadable starts do not count', () => {
  const limits = { ...none, rate: { count: 3, perMs: 600 } }
  for (const kept of ['', 'null', '[1]', '[[null,2]]', '{'])
    assert.equal(
      new LimitPlan({ now: 0, limits, running: new Map(), starts: new Map([[wholeQueue, kept]]) }).capacity,
      3,
    )
})

test('limits are read as they were written, and invalid limits count as none', () => {
  const limits = { concurrency: 2, rate: { count: 1, perMs: 10 }, perKey: null }
  assert.deepEqual(decodeLimits(JSON.stringify(limits)), limits)
  assert.equal(decodeLimits(null), undefined)
  assert.equal(decodeLimits('{'), undefined)
})
