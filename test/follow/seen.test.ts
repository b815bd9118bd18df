import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findSeen, isSeen } from './seen.ts'

test('ids, instants, spans and tokens are compared by shape, everything else by the letter', () => {
  const shown =
    'job 01m7fxrnxaekjm9qbwfrdqrkj3 at 2026-11-16T00:49:12.345Z took 12 ms, token 1794790276011000'
  assert.ok(
    isSeen(
      shown,
      'job 01k9z3v8qe0m4t9wq3rb5c7xkd at 2027-01-02T03:04:05.006Z took 7.5 ms, token 1794790276019999\n',
    ),
  )
  assert.equal(isSeen(shown, shown.replace('took', 'takes')), false)
  assert.equal(isSeen('1/5', '2/5'), false)
  assert.ok(isSeen('AGE  ERROR\n2 s', 'AGE     ERROR\n400 ms'), 'a column is as wide as its cells')
  assert.equal(isSeen('AGE  ERROR', 'AGE ERROR'), false)
  assert.equal(isSeen('a.b', 'axb'), false)
})

test('an ellipsis matches any text of a line, and alone on a line any lines', () => {
  assert.ok(isSeen('granted, … left\n…\nend', 'granted, 29 left\nmore\nand more\nend\n'))
  assert.ok(isSeen('begin\n…', 'begin\n'))
  assert.equal(isSeen('begin … end', 'begin\nend'), false)
})

test('output lines of a running command are found where they end', () => {
  const printed = 'noise\nup at 12 ms\nready\nmore\n'
  assert.equal(findSeen('up at 9 ms\nready\n', printed), printed.indexOf('\nmore'))
  assert.equal(findSeen('ready\nup', printed), undefined)
  assert.equal(findSeen('read', printed), undefined)
})
