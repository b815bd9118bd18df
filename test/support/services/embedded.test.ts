import assert from 'node:assert/strict'
import { mkdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { restoreLinks } from './embedded.ts'
import { createFolder } from './folder.ts'

test('the embedded Postgres gets back the links that npm cannot carry, and keeps its others', async () => {
  await using folder = createFolder('links')
  const native = join(folder.path, 'native')
  mkdirSync(join(native, 'lib'), { recursive: true })
  writeFileSync(join(native, 'lib', 'libpq.so.5.18'), '')
  const links = ['libpq.so', 'libpq.so.5'].map((name) => ({
    source: 'native/lib/libpq.so.5.18',
    target: `native/lib/${name}`,
  }))
  writeFileSync(join(native, 'pg-symlinks.json'), JSON.stringify(links))

  restoreLinks(native)
  restoreLinks(native)

  assert.equal(readlinkSync(join(native, 'lib', 'libpq.so')), 'libpq.so.5.18')
  assert.equal(readlinkSync(join(native, 'lib', 'libpq.so.5')), 'libpq.so.5.18')
})
