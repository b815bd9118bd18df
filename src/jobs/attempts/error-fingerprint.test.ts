import assert from 'node:assert/strict'
import { test } from 'vitest'
import { fingerprintError, normaliseMessage, ownFrame } from './error-fingerprint.ts'

const alike: readonly (readonly [string, string, string])[] = [
  ['Order 4711 not found', 'Order 12 not found', 'Order <n> not found'],
  ['No user "Ann"', 'No user "Bob O\'Neil"', 'No user <value>'],
  ["can't read 'a.txt'", "can't read 'b c.txt'", "can't read <value>"],
  [
    'Row 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is locked',
    'Row 9b2D5c1e-0000-4aaa-8bbb-123456789abc is locked',
    'Row <id> is locked',
  ],
  ['charge ch_3MmlLrLkdIwHu7ix failed', 'charge ch_1NxyzAbCdEf2GhIj0 failed', 'charge <id> failed'],
  ['job 01k9z3v8qe0m4t9wq3rb5c7xkd is gone', 'job 01jabcdefghjkmnpqrstvwxyz0 is gone', 'job <id> is gone'],
  ['commit 9fceb02 is missing', 'commit a1b2c3d is missing', 'commit <id> is missing'],
  ['bad pointer 0xdeadbeef', 'bad pointer 0x1f', 'bad pointer <n>'],
  [
    'late since 2026-11-18T20:15:38.123Z by 30.5 s',
    'late since 2025-01-02 03:04:05+01:00 by -2 s',
    'late since <date> by <n> s',
  ],
  [
    'mail to ann@example.com bounced',
    'mail to bob.b+x@mail.example.org bounced',
    'mail to <address> bounced',
  ],
  [
    'connect ECONNREFUSED 10.0.0.7:5432',
    'connect ECONNREFUSED 192.168.1.20:5433',
    'connect ECONNREFUSED <n>',
  ],
  ['a\n  b', 'a b', 'a b'],
]

test.each(alike)('"%s" and "%s" have the same fingerprint', (one, other, normal) => {
  assert.equal(normaliseMessage(one), normal)
  assert.equal(normaliseMessage(other), normal)
})

test('messages with different meanings stay different', () => {
  const messages = ['Order not found', 'Order is paid', 'item 1 not found', 'order 1 not found', '']
  assert.equal(new Set(messages.map(normaliseMessage)).size, messages.length)
})

test('any message is fingerprinted quickly', () => {
  for (const part of ['"', "'", 'a1', '1', 'a@', '0x', '2026-', '1:', '_', '. ', '@a.'])
    assert.ok(normaliseMessage(part.repeat(50_000)).length <= 300)
})

const stackOf = (...frames: readonly string[]) =>
  `Error: boom\n${frames.map((frame) => `    at ${frame}`).join('\n')}`

test('the frame is the first one of the user’s own code, without line numbers and folders', () => {
  const stack = stackOf(
    'JSON.parse (<anonymous>)',
    'node:internal/process/task_queues:105:5',
    'Query.run (/app/node_modules/pg/lib/query.js:10:3)',
    'run (file:///app/node_modules/signalbox/dist/jobs/worker/attempt.js:1:1)',
    'async charge (file:///srv/releases/2026-11-18/src/billing/charge.ts:41:9)',
    'async main (/srv/main.ts:1:1)',
  )
  assert.equal(ownFrame(stack), 'charge (billing/charge.ts)')
  const later = stackOf('async charge (/srv/releases/2026-12-01/src/billing/charge.ts:77:2)')
  assert.equal(ownFrame(later), ownFrame(stack))
  assert.equal(ownFrame(stackOf('C:\\app\\src\\mail.js:3:4')), '(src/mail.js)')
  assert.equal(ownFrame(stackOf('new Order (/app/src/order.ts:3:4)')), 'new Order (src/order.ts)')
  assert.equal(ownFrame('Error: at home\n  at no place'), '')
  assert.equal(ownFrame(stackOf('node:fs:1:1')), '')
})

test('a fingerprint distinguishes kinds, names, messages and frames', () => {
  const error = { name: 'TypeError', message: 'x 1', stack: stackOf('a (/app/src/a.ts:1:1)') }
  const of = (change: Partial<typeof error>, kind = 'mail') =>
    fingerprintError(kind, JSON.stringify({ ...error, ...change }))
  assert.match(of({}), /^[0-9a-f]{16}$/)
  assert.equal(of({ message: 'x 2', stack: stackOf('a (/elsewhere/src/a.ts:9:9)') }), of({}))
  const others = [
    of({ name: 'RangeError' }),
    of({ message: 'y 1' }),
    of({ stack: stackOf('b (/app/src/a.ts:1:1)') }),
    of({}, 'post'),
    of({}),
  ]
  assert.equal(new Set(others).size, others.length)
})

test('any text that a store may have kept has a fingerprint', () => {
  for (const error of ['', 'no JSON', 'null', '1', '{}', '{"message":5,"stack":6}', '[]'])
    assert.match(fingerprintError('mail', error), /^[0-9a-f]{16}$/)
})

test('an attempt whose lease expired and the job that died of it have one fingerprint', () => {
  const attempt = '{"code":"lease_expired","message":"The lease ran out: its worker died."}'
  const job = '{"code":"lease_expired","message":"The lease ran out, and no attempts are left."}'
  assert.equal(fingerprintError('mail', attempt), fingerprintError('mail', job))
})
