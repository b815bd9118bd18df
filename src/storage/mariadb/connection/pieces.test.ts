import assert from 'node:assert/strict'
import { test } from 'vitest'
import { cutPieces } from './packets.ts'

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
