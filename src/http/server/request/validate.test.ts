import assert from 'node:assert/strict'
import { expect, test } from 'vitest'
import type { Schema } from '../../contract/index.ts'
import { compileSoon } from './validate.ts'

test('every schema is compiled before long, in order, though nothing else happens in the process', async () => {
  const schemas: Schema[] = Array.from({ length: 60 }, () => ({ type: 'string' }) as Schema)
  const compiled: Schema[] = []
  compileSoon(schemas, (schema) => compiled.push(schema), 1)
  assert.deepEqual(compiled, [], 'a start does not wait for it')
  // Looked at seldom, for a look wakes the event loop.
  await expect.poll(() => compiled.length, { interval: 400, timeout: 20_000 }).toBe(schemas.length)
  assert.ok(compiled.every((schema, at) => schema === schemas[at]))
})
