import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { parseAddressRules } from '../../../src/monitor/delivery/address-rules.ts'

const closed = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '100.64.0.1',
  '100.100.100.200',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.192',
  '192.168.1.1',
  '198.18.0.1',
  '203.0.113.9',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::7f00:1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '0:0:0:0:0:FFFF:7F00:0001',
  '::ffff:0:7f00:1',
  '64:ff9b::7f00:1',
  '64:ff9b::169.254.169.254',
  '64:ff9b:1::7f00:1',
  '100::1',
  '2001::1',
  '2001:db8::1',
  '2002:7f00:1::',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
]
const open = ['8.8.8.8', '100.128.0.1', '172.32.0.1', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::808:808']

test('addresses outside the public internet are refused, in every notation', () => {
  const rules = parseAddressRules([])
  for (const address of closed) assert.equal(rules.isAllowed(address), false, address)
  for (const address of open) assert.equal(rules.isAllowed(address), true, address)
  for (const address of [...closed, ...open]) assert.equal(rules.isNamed(address), false, address)
})

test('addresses that the operator names are allowed, in every notation, and no others', () => {
  const rules = parseAddressRules(['127.0.0.0/8', '10.1.2.3', 'fd00::/8'])
  for (const address of ['127.0.0.1', '::ffff:7f00:1', '64:ff9b::7f00:1', '10.1.2.3', 'fd12::1']) {
    assert.equal(rules.isAllowed(address), true, address)
    assert.equal(rules.isNamed(address), true, address)
  }
  for (const address of ['10.1.2.4', '::1', 'fc00::1', '128.0.0.1%x', 'localhost', '', '127.0.0.1/8']) {
    assert.equal(rules.isNamed(address), false, address)
  }
  assert.equal(rules.isAllowed('10.1.2.4'), false)
})

test('an invalid range is refused with its place in the list', () => {
  const wrong: unknown[] = [
    '127.0.0.0/33',
    '::/129',
    'localhost',
    '127.1',
    '',
    '10.0.0.0/-1',
    7,
    null,
    '::ffff:127.0.0.0/104',
  ]
  for (const range of wrong) {
    assert.throws(
      () => parseAddressRules(['10.0.0.0/8', range as string]),
      (error) => isSignalboxError(error, 'invalid_argument') && error.message.includes('allowPrivate[1]'),
      String(range),
    )
  }
  assert.throws(() => parseAddressRules('127.0.0.0/8' as never), /allowPrivate/)
})
