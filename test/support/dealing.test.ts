import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { test } from 'vitest'
import { root } from '../house/sources.ts'
import { deal, longOnes } from './dealing.ts'

const dealt = (paths: readonly string[]) => deal(paths, (path) => path)

test('every file runs once, and kinds of files take turns', () => {
  const crashes = ['a', 'b'].map((name) => `test/crashes/${name}.test.ts`)
  const services = ['c', 'd'].map((name) => `test/services/${name}.test.ts`)
  const others = ['e', 'f', 'g', 'h'].map((name) => `src/core/${name}.test.ts`)
  const order = dealt([...crashes, ...services, ...others])
  assert.deepEqual(order.toSorted(), [...crashes, ...services, ...others].toSorted())
  for (const half of [order.slice(0, 4), order.slice(4)]) {
    assert.equal(half.filter((path) => path.startsWith('test/crashes/')).length, 1)
    assert.equal(half.filter((path) => path.startsWith('test/services/')).length, 1)
  }
})

test('a slow file starts before its kind, however small it is', () => {
  const small = ['test/conformance/backends-postgres.test.ts', 'test/http/server/fuzz/fuzz.test.ts']
  const order = dealt(['test/services/migrate.test.ts', 'src/core/ids.test.ts', ...small])
  assert.deepEqual(order.slice(0, 2), small)
})

test('each listed slow file exists', () => {
  const paths = globSync('{src,test}/**/*.test.ts', { cwd: root })
  const gone = longOnes.filter((beginning) => !paths.some((path) => path.startsWith(beginning)))
  assert.deepEqual(gone, [])
})

test('files that share processes come last, in order, the slow ones first', () => {
  const small = ['src/core/ids.test.ts', 'test/dispatch/cluster/stories.test.ts']
  const alone = ['test/services/migrate.test.ts', 'test/http/server/handlers/jobs.test.ts']
  const order = deal(
    [small[0]!, alone[0]!, small[1]!, alone[1]!],
    (path) => path,
    (path) => small.includes(path),
  )
  assert.deepEqual(order.slice(0, 2).toSorted(), alone.toSorted())
  assert.deepEqual(order.slice(2), small.toReversed())
})
