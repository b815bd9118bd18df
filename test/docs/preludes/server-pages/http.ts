import assert from 'node:assert/strict'
import { check } from '../../prelude.ts'

check('HTTP: retries, waiting, streams', ({ output }) => {
  const [first, second] = output.trim().split('\n')
  assert.equal(first, second)
})
