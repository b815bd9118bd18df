import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findWrongExports } from './exports.ts'
import { readSource, readSources } from './sources.ts'

test('the package exports exactly its modules', async () => {
  const { exports } = JSON.parse(await readSource('package.json'))
  assert.deepEqual(findWrongExports(exports, [...(await readSources()).keys()]), [])
})

const entry = (file: string) => ({
  source: `./src/${file}.ts`,
  types: `./dist/${file}.d.ts`,
  default: `./dist/${file}.js`,
})
const files = ['src/index.ts', 'src/core/ids.ts', 'src/jobs/index.ts', 'src/storage/redis/index.ts']
const good = {
  '.': entry('index'),
  './jobs': entry('jobs/index'),
  './redis': entry('storage/redis/index'),
  './package.json': './package.json',
}

test('a correct exports map is not reported', () => {
  assert.deepEqual(findWrongExports(good, files), [])
})

test('a module without an export, an export without a module and a wrong order are found', () => {
  const { source, types, default: built } = entry('jobs/index')
  for (const [exports, reason] of [
    [{ ...good, './jobs': undefined }, /"\.\/jobs" is not exported/],
    [{ ...good, './redis': undefined }, /"\.\/redis" is not exported/],
    [{ ...good, './core': entry('core/index') }, /"\.\/core" is exported, but is no module/],
    [{ ...good, './jobs': { types, source, default: built } }, /"\.\/jobs" must be exactly/],
    [{ ...good, './jobs': { source, types } }, /"\.\/jobs" must be exactly/],
    [{ ...good, './jobs': './src/jobs/index.ts' }, /"\.\/jobs" must be exactly/],
  ] as const) {
    const found = findWrongExports(exports, files)
    assert.equal(found.length, 1)
    assert.match(found[0]!, reason)
  }
})

test('a public module without an entry file is found', () => {
  const found = findWrongExports(good, [...files, 'src/locks/lock.ts'])
  assert.match(found[0]!, /src\/locks\/index\.ts is missing/)
})
