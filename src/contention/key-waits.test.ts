import assert from 'node:assert/strict'
import { test } from 'vitest'
import { KeyWaits } from './key-waits.ts'

const key = { namespace: 'default', operation: 'deploy', resource: 'web' }

function stage(max = 10) {
  const clock = { now: 1_000 }
  const waits = new KeyWaits(max, () => clock.now)
  return { clock, waits }
}

test('the holder of a key is charged with the time of each waiter', () => {
  const { clock, waits } = stage()
  waits.granted(key, 'a', '1')
  waits.queued(key, 'b', '1')
  clock.now += 100
  waits.queued(key, 'c', '1')
  clock.now += 50
  waits.released(key, { node: 'b', requestId: '1' })
  clock.now += 30

  const [entry] = waits.list()
  assert.equal(entry!.holder, 'b')
  assert.deepEqual(
    [...entry!.byHolder],
    [
      ['a', 200],
      ['b', 30],
    ],
  )
  assert.equal(entry!.waitedMs, 230)
  assert.deepEqual([entry!.waitCount, entry!.maxWaitMs], [1, 150])
  assert.deepEqual(
    [...entry!.waiters.values()].map(({ node }) => node),
    ['c'],
  )
})

test('a waiter that leaves or stops asking no longer counts as waiting', () => {
  const { clock, waits } = stage()
  waits.queued(key, 'b', '1')
  waits.queued(key, 'c', '1')
  clock.now += 10
  waits.left(key, 'b', '1')
  clock.now += 61_000

  const [entry] = waits.list()
  assert.equal(entry!.waiters.size, 0)
  assert.equal(entry!.waitCount, 2)
})

test('a holder that is gone is not charged after the end of its lease', () => {
  const { clock, waits } = stage()
  waits.granted(key, 'a', '1')
  waits.queued(key, 'gone', '1')
  clock.now += 30_000
  waits.queued(key, 'here', '1')
  // An hour later, in which only one of them asked, each half minute.
  for (let asks = 0; asks < 120; asks++) {
    clock.now += 30_000
    waits.queued(key, 'here', '1')
  }

  const [entry] = waits.list()
  assert.equal(entry!.waitedMs, 60_000 + 3_600_000)
  assert.deepEqual([...entry!.byHolder], [['a', 3_660_000]])
  assert.deepEqual([entry!.waitCount, entry!.waiters.size], [1, 1])
  clock.now += 3_600_000
  assert.equal(waits.list()[0]!.waitedMs, 60_000 + 3_660_000)
})

test('waiters that are gone are evicted for new ones', () => {
  const { clock, waits } = stage()
  for (let number = 0; number < 100; number++) waits.queued(key, `gone ${number}`, '1')
  clock.now += 61_000
  waits.queued(key, 'here', '1')

  const [entry] = waits.list()
  assert.deepEqual(
    [...entry!.waiters.values()].map(({ node }) => node),
    ['here'],
  )
  assert.equal(entry!.waitCount, 100)
})

test('asking again keeps the position', () => {
  const { clock, waits } = stage()
  waits.queued(key, 'b', '1')
  clock.now += 50_000
  waits.queued(key, 'b', '1')
  clock.now += 50_000

  assert.equal(waits.list()[0]!.waiters.size, 1)
})

test('the numbers of keys, waiters and holders are bounded', () => {
  const { clock, waits } = stage(100)
  for (let number = 0; number < 5_000; number++) {
    const other = { ...key, resource: `r${number}` }
    waits.granted(other, `holder ${number}`, '1')
    waits.queued(other, 'b', '1')
  }
  for (let number = 0; number < 5_000; number++) {
    clock.now++
    waits.queued(key, `n${number}`, '1')
    waits.granted(key, `n${number}`, '1')
    waits.queued(key, `m${number}`, '1')
  }

  const entries = waits.list()
  assert.ok(entries.length <= 100, `${entries.length}`)
  assert.ok(waits.overflow > 4_000)
  const entry = entries.find(({ key: { resource } }) => resource === 'web')!
  assert.ok(entry.waiters.size <= 100)
  assert.ok(entry.byHolder.size <= 9, `${entry.byHolder.size}`)
})

test('a namespace sees only its own keys', () => {
  const { waits } = stage()
  waits.queued(key, 'b', '1')
  waits.queued({ ...key, namespace: 'other' }, 'b', '1')

  assert.equal(waits.list().length, 2)
  assert.deepEqual(
    waits.list('other').map((entry) => entry.key.namespace),
    ['other'],
  )
})
