import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { test } from 'vitest'
import { findIndexGaps } from './llms.ts'
import { readSource, root } from './sources.ts'

test('llms.txt and the index of the documentation list every page', async () => {
  const pages = globSync('docs/**/*.md', { cwd: root }).map((path) => path.replaceAll('\\', '/'))
  assert.ok(pages.length > 25)
  const files = new Set([...pages, ...globSync('*', { cwd: root })])
  const [llms, index] = await Promise.all([readSource('llms.txt'), readSource('docs/README.md')])
  assert.deepEqual(findIndexGaps(llms, index, pages.sort(), files), [])
})

const llms =
  '# A\n\n> What it is.\n\n- a note\n\n## Docs\n\n- [B](docs/b.md): about b\n- [Index](docs/README.md): all\n'
const index = '[b](b.md)'
const pages = ['docs/README.md', 'docs/b.md']
const files = new Set(pages)

test('an index that lists every page is not reported', () => {
  assert.deepEqual(findIndexGaps(llms, index, pages, files), [])
})

test('a page that is unlisted, listed twice or missing, and a wrong form, are found', () => {
  for (const [given, reason] of [
    [findIndexGaps(llms, index, [...pages, 'docs/c.md'], files), /^llms\.txt: docs\/c\.md is not listed$/m],
    [findIndexGaps(llms, '', pages, files), /^docs\/README\.md: b\.md is not listed$/m],
    [findIndexGaps(`${llms}- [D](docs/d.md): d\n`, index, pages, files), /docs\/d\.md is not there/],
    [findIndexGaps(`${llms}- [B](docs/b.md): b\n`, index, pages, files), /docs\/b\.md is listed 2 times/],
    [findIndexGaps(`${llms}- [B](docs/b.md)\n`, index, pages, files), /no link with a word/],
    [findIndexGaps(llms.replace('> ', ''), index, pages, files), /must begin with a title/],
  ] as const) {
    assert.match(given.join('\n'), reason)
  }
})
