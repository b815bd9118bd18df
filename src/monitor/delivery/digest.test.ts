import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Candidate, planMessages } from './digest.ts'

function some(count: number, candidate: Partial<Candidate> = {}, from = 0): Candidate[] {
  return Array.from({ length: count }, (_, index) => ({
    id: String(from + index).padStart(4, '0'),
    group: 'one',
    digestMs: null,
    createdAt: 1_000,
    attempt: 0,
    digestId: null,
    alone: false,
    ...candidate,
  }))
}

const sizes = (items: readonly Candidate[], free: number, now = 2_000) =>
  planMessages(items, free, now).messages.map((message) => message.length)

test('when all messages may go, each goes on its own', () => {
  assert.deepEqual(sizes(some(3), 3), [1, 1, 1])
  assert.deepEqual(sizes(some(3), Number.POSITIVE_INFINITY), [1, 1, 1])
})

test('when one message is left and more than one is due, the rest share it', () => {
  assert.deepEqual(sizes(some(5), 3), [1, 1, 3])
  assert.deepEqual(sizes(some(5), 1), [5])
  assert.deepEqual(sizes(some(1), 1), [1])
  assert.deepEqual(sizes(some(50), 20), [...Array<number>(19).fill(1), 31])
})

test('when no message may go, nothing goes and nothing is lost', () => {
  assert.deepEqual(planMessages(some(5), 0, 2_000), { messages: [], later: [] })
})

test('notifications with another configuration have a separate message', () => {
  const items = [...some(3, { group: 'one' }), ...some(3, { group: 'two' }, 3)]
  assert.deepEqual(sizes(items, 2), [3, 3])
  assert.deepEqual(sizes(items, 3), [1, 2, 3])
  assert.deepEqual(sizes(items, 1), [3], 'the oldest first; the others wait')
})

test('a subscription with a window is notified at its end, in one message', () => {
  const items = some(4, { digestMs: 10_000, createdAt: 12_345 })
  const before = planMessages(items, 10, 19_999)
  assert.deepEqual(before.messages, [])
  assert.deepEqual(
    before.later.map(({ at }) => at),
    [20_000, 20_000, 20_000, 20_000],
  )
  assert.deepEqual(sizes(items, 10, 20_000), [4])
})

test('a shared message is retried unchanged, and a retry waits for no window', () => {
  const again = some(3, { attempt: 1, digestId: 'd1', digestMs: 10_000, createdAt: 12_345 })
  assert.deepEqual(sizes([...again, ...some(2, {}, 3)], 10, 13_000), [3, 1, 1])
})

test('a notification that must not be shared goes alone or waits', () => {
  const items = [...some(3, { alone: true, attempt: 1, digestId: 'd1' }), ...some(3, {}, 3)]
  assert.deepEqual(sizes(items, 10), [1, 1, 1, 1, 1, 1])
  assert.deepEqual(sizes(items, 4), [1, 1, 1, 3])
  assert.deepEqual(sizes(items, 2), [1, 1])
})

test('each notification is in at most one message, in order, and the messages stay within the limit', () => {
  let seed = 11
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return seed % below
  }
  for (let round = 0; round < 500; round++) {
    const items = Array.from({ length: random(12) }, (_, index) => {
      const attempt = random(2)
      return some(
        1,
        {
          group: ['one', 'two', 'three'][random(3)]!,
          digestMs: random(3) === 0 ? 1_000 : null,
          createdAt: 900 + random(200),
          attempt,
          digestId: attempt > 0 && random(2) === 0 ? `d${random(2)}` : null,
          alone: random(5) === 0,
        },
        index,
      )[0]!
    })
    const free = random(8)
    const { messages, later } = planMessages(items, free, 1_500)
    const notified = [...messages.flat(), ...later.map(({ item }) => item)].map(({ id }) => id)
    assert.equal(new Set(notified).size, notified.length)
    assert.ok(messages.length <= free)
    if (free > 0 && items.length > later.length) assert.ok(messages.length > 0)
    for (const message of messages) {
      assert.equal(new Set(message.map(({ group }) => group)).size, 1)
      if (message.some(({ alone }) => alone)) assert.equal(message.length, 1)
    }
    const enough = planMessages(items, 12, 1_500)
    assert.equal(
      enough.messages.flat().length + enough.later.length,
      items.length,
      'with free, none is left out',
    )
  }
})
