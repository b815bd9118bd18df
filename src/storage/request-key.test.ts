import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobStore } from '../jobs/index.ts'
import { createKeyedJobs } from './request-key.ts'

test('a store that can add a job as claimed refuses to do so with a request key', () => {
  const plain = { add: async () => [], addClaimed: async () => undefined, find: async () => undefined }
  const keyed = createKeyedJobs(plain as unknown as JobStore, async () => [])
  assert.equal(keyed.addClaimed, undefined)
  assert.equal(typeof keyed.find, 'function')
})
