import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { test } from 'vitest'
import { createTokens } from '../../../src/access/index.ts'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { serving } from '../../http/server/stage.ts'

const large = { name: 'large', requires: [{ label: 'memoryGb', gte: 40 }] }

test('an operator defines and removes a pool over HTTP, and the audit records both', async () => {
  await using stage = await serving()
  const tokens = createTokens({ store: stage.box.backend.tokens })
  const signedIn = async (scope: 'read' | 'work' | 'admin') => {
    const { secret } = await tokens.create({ name: scope, scope, namespace: 'default' })
    return createClient(stage.url, { token: secret })
  }
  using admin = await signedIn('admin')
  using worker = await signedIn('work')
  const named = async () => (await admin.dispatch.pools()).items.flatMap(({ name }) => name ?? [])
  await admin.dispatch.definePool(large)
  // A name may hold whatever a name may.
  await admin.dispatch.definePool({ name: 'a/b ö?', requires: [] })
  await assert.rejects(worker.dispatch.removePool('large'), (error) => isSignalboxError(error, 'forbidden'))
  assert.equal(await admin.dispatch.removePool('large'), true)
  assert.equal(await admin.dispatch.removePool('large'), false)
  assert.equal(await admin.dispatch.removePool('a/b ö?'), true)
  const { items } = await admin.audit.list({ action: 'pool.remove' })
  assert.deepEqual(
    items.map(({ target, outcome }) => [target.pool, outcome]),
    [
      ['a/b ö?', 'done'],
      ['large', 'done'],
      ['large', 'done'],
    ],
  )
  assert.deepEqual(await named(), [])
})

test('defining a new pool answers 201, changing the rule of a pool answers 200', async () => {
  await using stage = await serving()
  const define = async (requires: object[]) =>
    (await stage.ask('POST', '/v1/pools', { body: { name: 'large', requires } })).status
  assert.deepEqual([await define([]), await define(large.requires), await define([])], [201, 200, 200])
})

test('a box on a server removes a pool as a box on the database does', async () => {
  await using stage = await serving()
  await using box = await open(stage.url)
  await box.dispatch.definePool(large)
  assert.equal(await box.dispatch.removePool('large'), true)
  assert.equal(await box.dispatch.removePool('large'), false)
  await assert.rejects(box.dispatch.removePool(''), (error) => isSignalboxError(error, 'invalid_argument'))
})
