import assert from 'node:assert/strict'
import { test } from 'vitest'
import { errorCodes } from '../../src/core/errors.ts'
import { findCodeGaps } from './errors.ts'
import { readSource, readSources } from './sources.ts'

test('the codes that are thrown, promised and documented are the same', async () => {
  assert.deepEqual(findCodeGaps(await readSources(), errorCodes, await readSource('docs/errors.md')), [])
})

const table = { gone: { status: 404, meaning: 'It is not there.' } }
const page =
  '| Code | Status | Meaning |\n|---|---|---|\n| `gone` | 404 | It is not there. Look elsewhere. |\n'
const thrower = new Map([
  ['src/a.ts', "throw new SignalboxError(\n  'gone', 'No.')\n// new SignalboxError('old')"],
])

test('codes that agree are not complained about', () => {
  assert.deepEqual(findCodeGaps(thrower, table, page), [])
})

test('a code that is missing in one place is found', () => {
  const silent = new Map([['src/a.ts', '']])
  const other = new Map([...thrower, ['src/b.ts', "new SignalboxError('new', 'x')"]])
  const computed = new Map([...thrower, ['src/b.ts', 'new SignalboxError(code, message)']])
  for (const [found, reason] of [
    [findCodeGaps(silent, table, page), /gone is in the table, but nothing throws it/],
    [findCodeGaps(other, table, page), /new is thrown, but not in the table/],
    [findCodeGaps(computed, table, page), /src\/b\.ts: a code must be written where it is thrown/],
    [findCodeGaps(thrower, table, ''), /gone is in the table, but not in docs/],
    [findCodeGaps(thrower, table, page.replace('404', '410')), /gone has another status/],
    [findCodeGaps(thrower, table, page.replace('not there', 'away')), /gone has another meaning/],
    [
      findCodeGaps(thrower, table, `${page}| \`old\` | 400 | Old. |\n`),
      /old is documented, but not in the table/,
    ],
  ] as const) {
    assert.equal(found.length, 1, found.join('\n'))
    assert.match(found[0]!, reason)
  }
})
