import assert from 'node:assert/strict'
import { check } from '../prelude.ts'

export * from '../box.ts'

check('Moving live data', ({ output }) => assert.match(output, /rows would be copied, [1-9]\d* of them jobs/))

check('Moving live data #2', ({ output }) => {
  assert.match(output, /^copied \d+ rows, [1-9]\d* of them jobs/m)
  assert.match(output, /^equal: \d+ rows on both sides/m)
  const [first, second] = output.match(/^sha256 \w{64}$/gm) ?? []
  assert.ok(first !== undefined && first === second)
  assert.match(output, /^0 problems/m)
  assert.match(output, /^default +[1-9]/m)
})
