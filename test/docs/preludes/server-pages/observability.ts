import assert from 'node:assert/strict'
import { addresses } from '../../addresses.ts'
import { check } from '../../prelude.ts'

check('Health, metrics and logs', ({ output }) => assert.match(output, /^signalbox_store_up 1$/m))

// The example has the fields of an answer.
check('Scaling #2', async ({ data }) => {
  const response = await fetch(`${addresses.server}/v1/scaling?queue=mail`)
  const answer = (await response.json()) as object
  assert.deepEqual(Object.keys(data as object).sort(), Object.keys(answer).sort())
})
