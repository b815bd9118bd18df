import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { TestModule } from 'vitest/node'
import { retriedOf } from './retried.ts'

function aTest(fullName: string, flaky: boolean): object {
  return { fullName, diagnostic: () => ({ flaky }), result: () => ({ errors: [{ message: 'too slow' }] }) }
}

test('a test that passed only on its second run is named with its first failure', () => {
  const tests = [aTest('steady', false), aTest('shaky', true)]
  const module = { relativeModuleId: 'a.test.ts', children: { allTests: () => tests } }
  assert.deepEqual(retriedOf([module as unknown as TestModule]), [
    { name: 'shaky', file: 'a.test.ts', error: 'too slow' },
  ])
})
