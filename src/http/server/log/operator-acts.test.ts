import assert from 'node:assert/strict'
import { test } from 'vitest'
import { auditActions } from '../../../audit/index.ts'
import { routes } from '../../contract/index.ts'
import { operatorActs } from './operator-acts.ts'

test('every route that changes something and needs the scope admin is an operator’s act', () => {
  const missing = routes
    .filter(({ mutates, scope }) => mutates && scope === 'admin')
    .filter(({ id }) => !operatorActs.has(id))
  assert.deepEqual(
    missing.map(({ id }) => id),
    [],
    'each needs a line in operatoracts.ts',
  )
})

test('every act is of a route there is, that changes something, under a word of its own', () => {
  const acts = [...operatorActs].map(([id, { action }]) => {
    assert.equal(routes.find((route) => route.id === id)?.mutates, true, id)
    return action
  })
  assert.deepEqual(acts.toSorted(), [...auditActions].toSorted())
})
