import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from './deadline.ts'

test('a value or an error in time is passed on', async () => {
  assert.equal(await within(5_000, 'it', Promise.resolve(1)), 1)
  await assert.rejects(within(5_000, 'it', Promise.reject(new Error('no'))), /^Error: no$/)
})

test('a missing value becomes an error after the deadline', async () => {
  await assert.rejects(within(10, 'the server', new Promise(() => {})), /the server took more than 0\.01 s/)
})
