import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../core/fake-clock.ts'
import { FailedAttempts, networkOf } from './failed-attempts.ts'

function stage(max = 20, maxNetworks = 1_000) {
  const clock = createFakeClock()
  return { clock, failures: new FailedAttempts({ clock, max, windowMs: 60_000, maxNetworks }) }
}

test('an address with too many wrong tokens must wait for the end of its minute; others need not', () => {
  const { clock, failures } = stage()
  for (let i = 0; i < 20; i++) {
    failures.count('10.0.0.1')
    clock.advance(100)
  }
  assert.throws(() => failures.count('10.0.0.1'), {
    code: 'too_many',
    details: { retryAfterMs: 58_000 },
  })
  failures.count('10.0.0.2')
  clock.advance(58_000)
  failures.count('10.0.0.1')
})

test('clients without a known address are never locked out: several may share it', () => {
  const { failures } = stage(1)
  for (let i = 0; i < 5; i++) failures.count('')
  assert.equal(failures.size, 0)
})

test('the number of counted addresses is bounded, and an entry disappears when its time is over', () => {
  const { clock, failures } = stage(5, 100)
  for (let i = 0; i < 1_000; i++) failures.count(`10.0.${i >> 8}.${i & 255}`)
  assert.equal(failures.size, 100)
  for (let i = 0; i < 4; i++) failures.count('10.0.3.231')
  assert.throws(() => failures.count('10.0.3.231'), { code: 'too_many' })
  assert.equal(failures.size, 100, 'one more of a network that is counted pushes out no other')
  clock.advance(60_000)
  failures.count('10.9.9.9')
  assert.equal(failures.size, 1)
})

test('all addresses of one IPv6 customer count as one', () => {
  for (const [address, network] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['::FFFF:10.1.2.3', '10.1.2.3'],
    ['::1', '0:0:0:0'],
    ['::', '0:0:0:0'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:DB8:1:2::6', '2001:db8:1:2'],
    ['2001:0db8:0001:0002:0:0:0:6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['::ffff:a01:203', '10.1.2.3'],
    ['1::2:3:4:5:6:7', '1:0:2:3'],
    ['64:ff9b::10.1.2.3', '64:ff9b:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['', ''],
  ] as const)
    assert.equal(networkOf(address), network, address)
})
