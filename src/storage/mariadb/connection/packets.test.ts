import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Statement } from './calls.ts'
import { cutPieces, packStatements } from './packets.ts'

const small: Statement = ['SELECT ?', ['a']]
const large: Statement = ['SELECT ?', ['é'.repeat(400)]]

test('statements that fit go in one packet', () => {
  assert.deepEqual(packStatements([small, large, small], 100_000), [[small, large, small]])
  assert.deepEqual(packStatements([], 1_000), [])
})

test('statements that do not fit together keep their order, and none is left out', () => {
  const statements = [small, large, large, small, small]
  const packets = packStatements(statements, 1_500)
  assert.deepEqual(packets.flat(), statements)
  assert.equal(packets.length, 2)
})

test('a statement that is larger than a packet goes alone', () => {
  assert.deepEqual(packStatements([small, large, small], 100), [[small], [large], [small]])
})

test('the size of values in lists of rows is counted', () => {
  const rows: Statement = ['INSERT … VALUES ?', [[['x'.repeat(300)], ['x'.repeat(300)]]]]
  assert.deepEqual(packStatements([rows, rows], 2_000), [[rows], [rows]])
})

test('a text is cut into pieces that fit and give the text again', () => {
  for (const text of ['', 'a', 'abcdefghij', 'é'.repeat(50), '🚂'.repeat(33), `a${'🚂'.repeat(20)}"\\`]) {
    for (const bytes of [6, 7, 12, 31, 1_000]) {
      const pieces = cutPieces(text, bytes)
      assert.equal(pieces.join(''), text)
      for (const piece of pieces) assert.ok(Buffer.byteLength(piece) <= bytes, `${piece} in ${bytes}`)
    }
  }
})

test('an empty text is one piece, and one that fits is not cut', () => {
  assert.deepEqual(cutPieces('', 100), [''])
  assert.deepEqual(cutPieces('x'.repeat(33), 100), ['x'.repeat(33)])
})

test('no piece ends in the middle of a character', () => {
  for (const piece of cutPieces(`${'a'}${'🚂'.repeat(50)}`, 18)) assert.ok(piece.isWellFormed(), piece)
})
