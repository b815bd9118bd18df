import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createClientAddresses } from './client-address.ts'

function clientOf(trusted: readonly string[], address: string, forwardedFor?: string): string {
  const header = (name: string) => (name === 'x-forwarded-for' ? forwardedFor : undefined)
  return createClientAddresses(trusted).of({ address, header })
}

test('without trusted proxies, and from any other peer, the header is ignored', () => {
  assert.equal(clientOf([], '10.0.0.1', '203.0.113.7'), '10.0.0.1')
  assert.equal(clientOf(['10.0.0.1'], '10.0.0.2', '203.0.113.7'), '10.0.0.2')
  assert.equal(clientOf(['10.0.0.0/8'], '11.0.0.1', '203.0.113.7'), '11.0.0.1')
  assert.equal(clientOf(['10.0.0.0/8'], '', '203.0.113.7'), '', 'who the peer is must be known')
})

test('the client is the right-most address that is no trusted proxy, whatever stands left of it', () => {
  const trusted = ['10.0.0.0/8', 'fd00::/8']
  for (const [forwardedFor, client] of [
    ['203.0.113.7', '203.0.113.7'],
    ['6.6.6.6, 203.0.113.7', '203.0.113.7'],
    ['10.9.9.9, 203.0.113.7,10.0.0.2 ,\t10.0.0.3', '203.0.113.7'],
    ['<script>, 203.0.113.7', '203.0.113.7'],
    ['10.0.0.7, 10.0.0.2', '10.0.0.7'],
    ['203.0.113.7, unknown', '10.0.0.1'],
    ['203.0.113.7, unknown, 10.0.0.2', '10.0.0.2'],
    ['', '10.0.0.1'],
    [',', '10.0.0.1'],
    ['203.0.113.7:4711', '203.0.113.7'],
    ['[2001:db8::7]:4711', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['2001:db8::7, fd00::1', '2001:db8::7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['203.0.113.7, ::ffff:10.0.0.2', '203.0.113.7'],
    ['203.0.113.7, ::ffff:a00:2', '203.0.113.7'],
  ] as const)
    assert.equal(clientOf(trusted, '10.0.0.1', forwardedFor), client, forwardedFor)
  assert.equal(clientOf(trusted, '10.0.0.1'), '10.0.0.1')
})

test('a peer is known in every form of its address', () => {
  for (const peer of ['::ffff:10.0.0.1', '::FFFF:10.0.0.1', '::ffff:a00:1'])
    assert.equal(clientOf(['10.0.0.1'], peer, '203.0.113.7'), '203.0.113.7', peer)
  assert.equal(clientOf([], '::ffff:10.0.0.1'), '10.0.0.1')
  assert.equal(clientOf(['fe80::/10'], 'fe80::1%eth0', '203.0.113.7'), '203.0.113.7')
  assert.equal(clientOf(['::1'], '::1', '203.0.113.7'), '203.0.113.7')
  assert.equal(clientOf(['0.0.0.0/0'], '::1', '203.0.113.7'), '::1', 'IPv4 ranges hold no IPv6 address')
  assert.equal(clientOf(['::/0'], '10.0.0.1', '203.0.113.7'), '10.0.0.1', 'nor IPv6 ranges an IPv4 one')
})

test('a list of thousands is read in no time', () => {
  const begunAt = performance.now()
  clientOf(['10.0.0.0/8'], '10.0.0.1', '10.0.0.1,'.repeat(4_000))
  clientOf(['10.0.0.0/8'], '10.0.0.1', `1.1.1.1,${'10.0.0.1,'.repeat(2_000)}10.0.0.2`)
  assert.ok(performance.now() - begunAt < 500)
})

test('what is no address or range is refused, by its place', () => {
  for (const wrong of [
    '10.0.0.0/33',
    'proxy',
    '',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '::/129',
    '10.0.0',
    7,
    null,
    '::ffff:10.0.0.1',
  ])
    assert.throws(() => createClientAddresses(['10.0.0.1', wrong as string]), {
      code: 'invalid_argument',
      message: /^trustedProxies\[1\] /,
      details: { option: 'trustedProxies[1]' },
    })
  assert.throws(() => createClientAddresses('10.0.0.1' as never), {
    message: /^trustedProxies must be a list/,
  })
})
