import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createIds } from '../../../core/ids.ts'
import { idBound } from './remove.ts'

test('an id sorts below the bound of every later time, and not below the bound of its own time', () => {
  for (const ms of [0, 1, 31, 32, 1_023, 1_024, 1_794_734_885_757, 2 ** 48 - 2]) {
    const id = createIds({ now: () => ms })()
    assert.ok(id < idBound(ms + 1), `${id} < ${idBound(ms + 1)}`)
    assert.ok(id >= idBound(ms))
  }
})

test('times out of range bound nothing, or everything', () => {
  assert.equal(idBound(-5), '0000000000')
  assert.equal(idBound(Number.MAX_SAFE_INTEGER), '7zzzzzzzzz')
})
