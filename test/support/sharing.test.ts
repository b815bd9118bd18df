import assert from 'node:assert/strict'
import { test } from 'vitest'
import { changesItsProcess } from './sharing.ts'

test('a test that moves the clock, spies on modules or sets the environment runs in a separate process', () => {
  const clock = 'beforeEach, vi'
  assert.ok(changesItsProcess(`import { ${clock} } from 'vitest'`))
  assert.ok(changesItsProcess('process.env.HOME = folder'))
  assert.ok(!changesItsProcess(`import { test } from 'vitest'\nassert.equal(process.env.HOME, home)`))
})
