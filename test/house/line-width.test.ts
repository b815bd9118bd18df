import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { test } from 'vitest'
import { findWideLines } from './line-width.ts'
import { readSource, root } from './sources.ts'

/** Chinese has no spaces to break at; the others are generated. */
const others = new Set(['README.zh-CN.md', 'docs/api.md', 'docs/evidence.md'])

test('no text line of the documentation has more than 120 characters', async () => {
  const paths = globSync(['*.md', 'docs/**/*.md', 'dashboard/*.md', 'src/**/*.md'], { cwd: root }).filter(
    (path) => !others.has(path),
  )
  assert.ok(paths.length > 80, `${paths.length} pages`)
  const wide = await Promise.all(paths.map(async (path) => findWideLines(path, await readSource(path))))
  assert.deepEqual(wide.flat(), [])
})

test('a long line is found by its number; long lines of tables and code are not', () => {
  const long = 'x'.repeat(121)
  const page = ['# A', long, '', '```', long, '```', `| ${long} |`, long.slice(1), long].join('\n')
  assert.deepEqual(findWideLines('a.md', page), ['a.md:2: 121 characters', 'a.md:9: 121 characters'])
})
