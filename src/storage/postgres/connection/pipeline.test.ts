import assert from 'node:assert/strict'
import { test } from 'vitest'
import { PreparedStatements, StatementNames } from './pipeline.ts'

test('a statement is parsed once, and after a failure closed and parsed again', () => {
  const prepared = new PreparedStatements()
  const first = prepared.use('a')
  assert.deepEqual([first.isPrepared, first.closed], [false, []])
  // Sent before the first was answered: it is behind it on the wire.
  assert.equal(prepared.use('a').isPrepared, true)
  first.markUncertain()
  const again = prepared.use('a')
  assert.deepEqual([again.isPrepared, again.closed], [false, ['a']])
  assert.equal(prepared.use('a').isPrepared, true)
})

test('the least recently used statement is evicted', () => {
  const prepared = new PreparedStatements()
  for (let nr = 0; nr < 100; nr++) assert.deepEqual(prepared.use(`${nr}`).closed, [])
  prepared.use('0')
  assert.deepEqual(prepared.use('one more').closed, ['1'])
  assert.equal(prepared.use('0').isPrepared, true)
  assert.equal(prepared.use('1').isPrepared, false)
})

test('a frequent text gets a name, and must earn another once that is forgotten', () => {
  const names = new StatementNames()
  const ask = () => names.of('SELECT $1')
  assert.deepEqual([ask(), ask(), ask(), ask(), ask()], Array(5).fill(undefined))
  const name = ask()
  assert.match(name!, /^signalbox_/)
  assert.equal(ask(), name)
  names.forget('SELECT $1')
  assert.equal(ask(), undefined)
  while (ask() === undefined);
  assert.notEqual(ask(), name)
})

test('texts that differ for every job, and very long ones, get no name', () => {
  const names = new StatementNames()
  for (let nr = 0; nr < 2_000; nr++) assert.equal(names.of(`SELECT ${nr}`), undefined)
  for (let nr = 0; nr < 20; nr++) assert.equal(names.of('x'.repeat(10_001)), undefined)
})
