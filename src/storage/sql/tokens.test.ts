import assert from 'node:assert/strict'
import { test } from 'vitest'
import { includesScope, type Scope } from '../../access/index.ts'
import { decodeToken, encodeScope } from './tokens.ts'

const row = {
  ...{ namespace: 'default', id: 'i', name: 'n', scope: 'work', nodes: null, digest: 'd' },
  ...{ created_at: '1', expires_at: null, revoked_at: null, live: 1 },
}

test('a token for nodes is written with a scope without rights for a server of the previous release', () => {
  const written = encodeScope({ scope: 'work', nodes: ['a', 'b'] })
  assert.deepEqual(written, { scope: 'node', nodes: '["a","b"]' })
  for (const needed of ['read', 'work', 'admin'] as const)
    assert.equal(includesScope(written.scope as Scope, needed), false, needed)
  assert.deepEqual(encodeScope({ scope: 'admin', nodes: null }), { scope: 'admin', nodes: null })
})

test('a token for nodes is read as such, and one with unreadable nodes is bound to none', () => {
  const bound = decodeToken({ ...row, scope: 'node', nodes: '["a"]' })
  assert.deepEqual([bound.scope, bound.nodes], ['work', ['a']])
  assert.equal(decodeToken(row).nodes, null)
  for (const spoilt of [null, '', '{', '{}', 'null', '[7]'])
    assert.deepEqual(decodeToken({ ...row, scope: 'node', nodes: spoilt }).nodes, [], String(spoilt))
  // Bound by either of the two: a manual change of the row never makes the token unrestricted.
  assert.deepEqual(decodeToken({ ...row, scope: 'admin', nodes: '["a"]' }).nodes, ['a'])
  assert.equal(decodeToken({ ...row, scope: 'admin', nodes: '["a"]' }).scope, 'work')
})
