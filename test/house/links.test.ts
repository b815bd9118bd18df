import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { findBrokenLinks } from './links.ts'
import { readSource } from './sources.ts'

const root = join(import.meta.dirname, '../..')

test('every link between pages leads to an existing file and heading', async () => {
  const paths = globSync(['*.md', 'docs/**/*.md', 'dashboard/*.md'], { cwd: root })
  assert.ok(paths.length > 20)
  const pages = new Map(await Promise.all(paths.map(async (path) => [path, await readSource(path)] as const)))
  const folders = ['src', 'test', 'docs', 'examples', 'tools', 'bench', 'dashboard', 'packaging', '.ci']
  const files = new Set(
    globSync(['*', ...folders.map((folder) => `${folder}/**`)], {
      cwd: root,
      exclude: (name) => name === 'node_modules',
    }),
  )
  assert.deepEqual(findBrokenLinks(pages, files), [])
})

test('a link to a missing file or heading, and a missing file name, are found', () => {
  const pages = new Map([
    ['README.md', '# A\n[b](docs/b.md#two-words) [c](docs/c.md) `src/none.ts` [d](#a) ```[x](y)```\n'],
    ['docs/b.md', '## Two words\n[up](../README.md#b)\n```\n[in code](nowhere.md)\n```\n'],
  ])
  assert.deepEqual(findBrokenLinks(pages, new Set(['README.md', 'docs/b.md'])), [
    'README.md: docs/c.md leads to no file',
    'README.md: it names src/none.ts, which is not there',
    'docs/b.md: ../README.md#b leads to no heading',
  ])
})
