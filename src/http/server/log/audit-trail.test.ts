import assert from 'node:assert/strict'
import { test } from 'vitest'
import { auditActions } from '../../../audit/index.ts'
import { mutates, routes } from '../../contract/index.ts'
import { operatorActs } from './audit-trail.ts'

test('every admin route that changes something is in the audit trail', () => {
  const missing = routes
    .filter((route) => mutates(route) && route.scope === 'admin')
    .filter(({ id }) => !operatorActs.has(id))
  assert.deepEqual(
    missing.map(({ id }) => id),
    [],
    'each needs a line in audit-trail.ts',
  )
})

test('every audited action belongs to an existing changing route, and has a unique name', () => {
  const acts = [...operatorActs].map(([id, { action }]) => {
    assert.ok(
      routes.some((route) => route.id === id && mutates(route)),
      id,
    )
    return action
  })
  assert.deepEqual(acts.toSorted(), [...auditActions].toSorted())
})
