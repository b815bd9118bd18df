/**
 * The documentation, run: every block of every page, in order, as a reader would, and its TypeScript checked by `tsc`.
 * CONTRIBUTING.md says how a page is written so that this works.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, test } from 'vitest'
import { root } from '../house/sources.ts'
import { decodePage, findStrays, readPages } from './blocks.ts'
import { makeFolder, missingFor, preludeOf, runnableOf, runPage } from './page-run.ts'
import { offerOf, printProgram } from './program.ts'

/** As many pages at once as CI has cores, beside the compiler. */
const atOnce = 2

const pages = await readPages()
const withBlocks = pages.filter((page) => runnableOf(page).length > 0)
const folder = makeFolder()

let free = atOnce
const waiting: (() => void)[] = []
/** Does it when one of the hands is free, first come, first served. */
async function inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
  if (free > 0) free--
  else await new Promise<void>((resolve) => waiting.push(resolve))
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }
}

afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))

describe('every block of the documentation', () => {
  test('runs, or gives the reason why not', () => {
    assert.deepEqual(pages.flatMap(findStrays), [])
    const left = pages.flatMap(({ path, blocks }) =>
      blocks.flatMap(({ line, language, mark }) =>
        mark === undefined ? [] : [`${path}:${line} (${language} ${mark})`],
      ),
    )
    const count = pages.reduce((sum, page) => sum + runnableOf(page).length, 0)
    console.log(
      `${count} blocks on ${withBlocks.length} pages are run; ${left.length} are marked as not run:\n${left.join('\n')}`,
    )
    assert.ok(count >= 100, `only ${count} blocks are found: has the form of fences changed?`)
  })

  test.concurrent('in TypeScript passes the compiler', { timeout: 120_000 }, async () => {
    const files = withBlocks.flatMap((page) => {
      const prelude = preludeOf(page)
      const offer = offerOf(prelude)
      return runnableOf(page)
        .filter(({ language }) => language === 'ts')
        .map((block) => {
          const file = join(folder, 'types', page.name, `${block.line}.ts`)
          mkdirSync(dirname(file), { recursive: true })
          const { text } = block
          writeFileSync(
            file,
            block.file === undefined
              ? printProgram(block, text, prelude, offer)
              : `${'\n'.repeat(block.line)}${text}`,
          )
          return file
        })
    })
    const project = join(folder, 'tsconfig.json')
    writeFileSync(project, JSON.stringify({ compilerOptions, files }))
    const complaints = await promisify(execFile)(
      join(root, 'node_modules/.bin/tsc'),
      ['-p', project, '--pretty', 'false'],
      { cwd: folder },
    ).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
    // What it says of our sources, seen through a reader's options, is not about the pages.
    const ours = complaints.split('\n').filter((line) => line.startsWith('types/'))
    const reported = ours.map((line) => line.replace(/^types\/(\S+)\/\d+\.ts\((\d+),\d+\)/, '$1.md:$2'))
    assert.deepEqual(reported, [])
    assert.ok(complaints === '' || /^\S+\.ts\(/.test(complaints), complaints)
  })

  for (const page of withBlocks) {
    const missing = missingFor(page)
    const options = { timeout: 300_000, concurrent: true, skip: missing.length > 0 }
    test(`of ${page.path} does what the page says`, options, async () => {
      const complaints = await inTurn(() => runPage(page, folder))
      assert.ok(complaints.length === 0, complaints.join('\n\n'))
    })
  }
})

test('a block in an unknown language, or one that would be skipped unnoticed, is reported', () => {
  const page = (fence: string) => decodePage('docs/a.md', `# A\n\n\`\`\`${fence}\nx\n\`\`\`\n`)
  for (const fence of ['ts', 'sh', 'sql postgres', 'text', '', 'ts foreign', 'sh elsewhere']) {
    assert.deepEqual(findStrays(page(fence)), [], fence)
  }
  for (const fence of ['typescript', 'console', 'zsh']) assert.equal(findStrays(page(fence)).length, 1, fence)
  assert.equal(page('ts foreign').blocks[0]!.way, undefined)
  assert.equal(page('ts').blocks[0]!.way, 'program')
})

/** What a reader's own project has, strict as `tsc --init` makes it; the rest is how our sources are found. */
const compilerOptions = {
  target: 'es2024',
  module: 'nodenext',
  lib: ['es2024', 'esnext.disposable'],
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
  allowImportingTsExtensions: true,
  customConditions: ['source'],
}
