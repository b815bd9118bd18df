import assert from 'node:assert/strict'
import { test } from 'vitest'
import { encodeEvent } from '../../contract/index.ts'
import { createRing, type Ring } from './event-ring.ts'
import { streamsDefaults } from './stream.ts'

/** 2026 or so. */
const someTime = 1_790_000_000_000

function publish(ring: Ring, text: string): number {
  return ring.publish({ type: 'queues', data: undefined, text }).id!
}

const textsSince = (ring: Ring, id: number | string) => ring.since(String(id))?.map(({ text }) => text)

test('a reader goes on right after the id it has, or is told that this is not known', () => {
  const ring = createRing({ now: () => someTime, mark: 7 })
  assert.deepEqual([ring.last], [undefined])
  const ids = ['a', 'b', 'c'].map((text) => publish(ring, text))
  assert.deepEqual(textsSince(ring, ids[0]!), ['b', 'c'])
  assert.deepEqual(textsSince(ring, ids[2]!), [])
  assert.equal(ring.last?.text, 'c')
  for (const unknown of [ids[2]! + 32_768, 0, '', 'x', '-1', '1e9', '9'.repeat(16), '9'.repeat(400)]) {
    assert.equal(ring.since(String(unknown)), undefined, `since ${unknown}`)
  }
})

test('ids rise strictly while the clock stands still or steps back, and over a restart', () => {
  let now = someTime
  const ring = createRing({ now: () => now })
  const ids = ['a', 'b'].map((text) => publish(ring, text))
  now -= 3_600_000
  ids.push(publish(ring, 'c'))
  now += 3_600_500
  ids.push(publish(ring, 'd'))
  // The next process; whatever tells it apart.
  for (const mark of [0, 32_767]) {
    const next = createRing({ now: () => now + 100, mark })
    assert.ok(publish(next, 'e') > Math.max(...ids))
  }
  assert.deepEqual(
    ids,
    [...ids].sort((a, b) => a - b),
  )
  assert.equal(new Set(ids).size, 4)
  for (const id of ids) assert.ok(Number.isSafeInteger(id))
})

test('ids stay exact numbers until 2109', () => {
  const ring = createRing({ now: () => Date.UTC(2109, 0), mark: 32_767 })
  const first = publish(ring, 'a')
  assert.ok(Number.isSafeInteger(first))
  assert.ok(publish(ring, 'b') > first)
})

test("another server's id is not taken for one of ours", () => {
  const ours = createRing({ now: () => someTime, mark: 1 })
  const others = createRing({ now: () => someTime, mark: 2 })
  const [id] = ['a', 'b'].map((text) => publish(others, text))
  for (const text of ['c', 'd']) publish(ours, text)
  assert.equal(ours.since(String(id)), undefined)
})

test('only the last 64 events are kept, up to a limit of bytes', () => {
  const ring = createRing({ now: () => someTime })
  const ids = Array.from({ length: 100 }, (_, nth) => publish(ring, `${nth}`))
  assert.equal(textsSince(ring, ids[34]!), undefined)
  assert.equal(textsSince(ring, ids[35]!)?.length, 64)

  const small = createRing({ now: () => someTime, maxBytes: 10 })
  const [a, b] = ['aaaa', 'bbbb'].map((text) => publish(small, text))
  assert.deepEqual(textsSince(small, a!), ['bbbb'])
  // A large event alone is kept, even over the limit: it is the present state.
  publish(small, 'c'.repeat(100))
  assert.equal(textsSince(small, a!), undefined)
  assert.deepEqual(textsSince(small, b!)?.length, 1)
})

test('all that a reader can have missed fits into what a stream buffers for it', () => {
  const ring = createRing({ now: () => someTime })
  const ids = Array.from({ length: 200 }, () => publish(ring, 'x'.repeat(3_000)))
  const oldest = ids.find((id) => ring.since(String(id)) !== undefined)!
  const missed = ring
    .since(String(oldest))!
    .map(({ id, type, text }) => encodeEvent({ id, type, data: text! }))
  assert.ok(missed.length > 40)
  assert.ok(missed.join('').length < streamsDefaults.maxBufferedBytes)
})

test('a reader from a server whose clock is ahead gets the last event under a later id, and goes on from there', () => {
  const ring = createRing({ now: () => someTime, mark: 1 })
  const others = createRing({ now: () => someTime + 60_000, mark: 2 })
  const id = publish(ring, 'a')
  const theirs = publish(others, 'x')
  assert.equal(ring.lastAfter(String(id - 1))?.id, id)
  const again = ring.lastAfter(String(theirs))!
  assert.equal(again.text, 'a')
  assert.ok(again.id! > theirs)
  assert.ok(publish(ring, 'b') > again.id!)
  assert.deepEqual(textsSince(ring, again.id!), ['b'])
  // Nonsense must not drive our ids up.
  const before = ring.last!.id!
  assert.equal(ring.lastAfter(String(Number.MAX_SAFE_INTEGER))?.id, before)
  assert.equal(ring.lastAfter('nonsense')?.id, before)
})
