import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { SerializedError, TestModule } from 'vitest/node'
import { tally } from './closing.ts'

/** A test file as a reporter sees it, with the fields that the tally reads. */
function aModule(state: string, ...results: string[]): TestModule {
  const tests = results.map((result) => ({ result: () => ({ state: result }) }))
  return { state: () => state, children: { allTests: () => tests } } as unknown as TestModule
}

test('the closing line counts every test by its outcome', () => {
  const modules = [aModule('failed', 'passed', 'failed', 'passed'), aModule('passed', 'skipped', 'passed')]
  assert.deepEqual(tally(modules, []), { passed: 3, failed: 1, skipped: 1 })
})

test('a test file that does not load counts as a failure', () => {
  assert.deepEqual(tally([aModule('failed')], []), { passed: 0, failed: 1, skipped: 0 })
})

test('an error outside every test counts as a failure', () => {
  const stray = { message: 'unhandled' } as SerializedError
  assert.deepEqual(tally([aModule('passed', 'passed')], [stray]), { passed: 1, failed: 1, skipped: 0 })
})
