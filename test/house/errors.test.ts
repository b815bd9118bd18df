import assert from 'node:assert/strict'
import { test } from 'vitest'
import { errorCodes } from '../../src/core/errors.ts'
import { withCodes } from '../../tools/error-docs.ts'
import { findCodeGaps } from './errors.ts'
import { readSource, readSources } from './sources.ts'

test('the thrown codes and the table of codes agree', async () => {
  assert.deepEqual(findCodeGaps(await readSources(), errorCodes), [])
})

test('docs/errors.md agrees with the table of the source', async () => {
  const page = await readSource('docs/errors.md')
  const written = withCodes(page, errorCodes, await readSource('src/core/errors.ts'))
  assert.ok(page === written, 'docs/errors.md is stale: run `npm run docs`')
})

const table = { gone: { status: 404, meaning: 'It is not there.' } }
const thrower = new Map([
  ['src/a.ts', "throw new SignalboxError(\n  'gone', 'No.')\n// new SignalboxError('old')"],
])

test('matching codes are not reported', () => {
  assert.deepEqual(findCodeGaps(thrower, table), [])
})

test('a code that is missing on one side is found', () => {
  const silent = new Map([['src/a.ts', '']])
  const other = new Map([...thrower, ['src/b.ts', "new SignalboxError('new', 'x')"]])
  const computed = new Map([...thrower, ['src/b.ts', 'new SignalboxError(code, message)']])
  for (const [found, reason] of [
    [findCodeGaps(silent, table), /gone is in the table, but nothing throws it/],
    [findCodeGaps(other, table), /new is thrown, but not in the table/],
    [findCodeGaps(computed, table), /src\/b\.ts: a code must be written where it is thrown/],
  ] as const) {
    assert.equal(found.length, 1, found.join('\n'))
    assert.match(found[0]!, reason)
  }
})

test('a change of a status, a meaning or a comment changes the page, and a code needs a comment', () => {
  const page = '# Errors\n\n| Code | Status | Meaning |\n|---|---|---|\n| `old` | 400 | Old. |\n\nThe end.\n'
  const source = '  /**\n   * Look\n   * elsewhere.\n   */\n  gone: { status: 404 },'
  assert.equal(
    withCodes(page, table, source),
    '# Errors\n\n| Code | Status | Meaning |\n|---|---|---|\n| `gone` | 404 | It is not there. Look elsewhere. |\n\nThe end.\n',
  )
  assert.throws(() => withCodes(page, table, 'gone: {'), /gone has no comment that says what to do/)
})
