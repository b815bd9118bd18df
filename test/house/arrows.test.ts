import assert from 'node:assert/strict'
import { test } from 'vitest'
import { arrows, findCycles, findTurnedArrows, moduleOf } from './arrows.ts'
import { scanImports } from './imports.ts'
import { readSources } from './sources.ts'

test('every import follows the arrows between the modules', async () => {
  assert.deepEqual(findTurnedArrows(await readSources()), [])
})

test('no files import each other in a circle', async () => {
  assert.deepEqual(findCycles(await readSources()), [])
})

test('every module has an entry in the table of arrows', async () => {
  const modules = new Set([...(await readSources()).keys()].map(moduleOf))
  assert.deepEqual(
    [...modules].filter((module) => !(module in arrows)),
    [],
  )
})

test('the scanner sees every form of import', () => {
  const source = `
import a from './a.ts'
import type { B } from './b.ts'
import { type C } from './c.ts'
import * as d from "./d.ts"
import {
  e,
  type E,
} from './e.ts'
import './f.ts'
export { g } from './g.ts'
export type * from './h.ts'
export * from './i.ts'
import type from './j.ts'
  const k = await import('./k.ts')
  const l = await import(name)
`
  assert.deepEqual(
    scanImports(source).map(({ specifier, typeOnly }) => `${specifier}${typeOnly ? ' type' : ''}`),
    [
      './a.ts',
      './b.ts type',
      './c.ts',
      './d.ts',
      './e.ts',
      './g.ts',
      './h.ts type',
      './i.ts',
      './j.ts',
      './f.ts',
      './k.ts',
      'undefined',
    ],
  )
})

test('comments, texts and our own exports do not mislead the scanner', () => {
  const source = `
// import a from './a.ts'
/*
import b from './b.ts'
*/
export const from = 'nowhere'
export function f(): string { return Array.from('x') + " from './c.ts'" }
const url = 'http://x/' + "//"; queue.import('./d.ts')
`
  assert.deepEqual(scanImports(source), [])
})

/** The verdict of the check on one import in one file, with a few files around it. */
function problems(path: string, line: string): readonly string[] {
  const around = [
    'core/errors',
    'jobs/index',
    'jobs/job-store',
    'jobs/worker/worker',
    'storage/open',
    'storage/sqlite/index',
  ]
  const others = [...around, 'http/server/index', 'locks/index', 'http/contract/routes'].map(
    (name) => [`src/${name}.ts`, ''] as const,
  )
  return findTurnedArrows(new Map([...others, [path, `${line}\n`]]))
}

test('an import against an arrow is found', () => {
  for (const [path, line, reason] of [
    ['src/core/x.ts', "import { j } from '../jobs/index.ts'", /no arrow from core to jobs/],
    ['src/core/x.ts', "import fs from 'node:fs'", /browser/],
    ['src/core/x.ts', "import fs from 'fs'", /browser/],
    ['src/core/x.ts', "import w from 'ws'", /no packages/],
    [
      'src/http/client/x.ts',
      "import { j } from '../../jobs/index.ts'",
      /http\/client takes only types from jobs/,
    ],
    ['src/http/contract/x.ts', "import type { S } from 'node:net'", /browser/],
    ['src/http/contract/x.ts', "import { j } from '../../jobs/job-store.ts'", /only types/],
    ['src/jobs/x.ts', "import { s } from '../storage/sqlite/index.ts'", /no arrow from jobs to storage/],
    [
      'src/jobs/x.ts',
      "import type { S } from '../http/server/index.ts'",
      /no arrow from jobs to http\/server/,
    ],
    ['src/locks/x.ts', "import { j } from '../jobs/index.ts'", /no arrow from locks to jobs/],
    ['src/dispatch/x.ts', "import { w } from '../jobs/worker/worker.ts'", /by its index\.ts alone/],
    ['src/storage/redis/x.ts', "import { J } from '../../jobs/job-store.ts'", /only types/],
    [
      'src/storage/redis/x.ts',
      "import type { W } from '../../jobs/worker/worker.ts'",
      /records and store interfaces only/,
    ],
    ['src/jobs/x.ts', "import { j } from 'signalbox/locks'", /by its path/],
    ['src/jobs/x.ts', "import { j } from './gone.ts'", /no such source file/],
    ['src/jobs/x.ts', "import p from '../../package.json'", /no such source file/],
    ['src/jobs/x.ts', 'const j = await import(kind)', /readable in the source/],
    ['src/attic/x.ts', "import { e } from '../core/errors.ts'", /no line in the table/],
  ] as const) {
    const found = problems(path, line)
    assert.equal(found.length, 1, `${path}: ${line}`)
    assert.match(found[0]!, reason)
  }
})

test('an import along an arrow is not reported', () => {
  for (const [path, line] of [
    ['src/jobs/x.ts', "import { e } from '../core/errors.ts'"],
    ['src/jobs/x.ts', "import { w } from './worker/worker.ts'"],
    ['src/dispatch/x.ts', "import { j } from '../jobs/index.ts'"],
    ['src/storage/redis/x.ts', "import type { J } from '../../jobs/job-store.ts'"],
    ['src/storage/redis/x.ts', "import { s } from '../sqlite/index.ts'"],
    ['src/http/contract/x.ts', "import type { J } from '../../jobs/index.ts'"],
    ['src/http/server/x.ts', "import { WebSocketServer } from 'ws'"],
    ['src/http/server/x.ts', "import { r } from '../../locks/index.ts'"],
    ['src/index.ts', "export { open } from './storage/open.ts'"],
  ] as const) {
    assert.deepEqual(problems(path, line), [])
  }
})

test('a circle of files is found, and a circle of types alone is allowed', () => {
  const sources = (link: string) =>
    new Map([
      ['src/core/a.ts', "import { b } from './b.ts'\n"],
      ['src/core/b.ts', `import ${link} from './c.ts'\n`],
      ['src/core/c.ts', "export * from './a.ts'\n"],
      ['src/core/d.ts', "import { a } from './a.ts'\nimport { b } from './b.ts'\n"],
    ])
  const circle = 'src/core/a.ts -> src/core/b.ts -> src/core/c.ts -> src/core/a.ts'
  assert.deepEqual(findCycles(sources('{ type C }')), [circle])
  assert.deepEqual(findCycles(sources('type { C }')), [])
})
