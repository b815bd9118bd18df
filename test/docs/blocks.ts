/**
 * What becomes of each fenced block of the documentation. A block in a language that can be run is run, unless its fence
 * says why not; a block that only shows something says so by its language. There is no third kind: a language that
 * is not listed here is a complaint, so no block can drop out unseen.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../house/sources.ts'
import { type Snippet, snippetsOf } from '../support/snippets.ts'

/** How the blocks of a language are run. Data has nothing to run: it is parsed, and a check of the page's must look at it. */
const languages: Readonly<Record<string, Way>> = {
  ts: 'program',
  js: 'program',
  sh: 'shell',
  bash: 'shell',
  python: 'python',
  sql: 'sql',
  json: 'data',
  jsonc: 'data',
  yaml: 'data',
}

/** What is only looked at: output, drawings, and what no test here has an interpreter for. */
const shownOnly = new Set([
  ...['', 'text', 'output'],
  ...['go', 'java', 'nginx', 'haproxy', 'xml', 'properties', 'ini', 'dockerfile', 'mermaid'],
])

/** What a fence may say after the language to be left out, and why that is no mistake. */
const marks: Readonly<Record<string, string>> = {
  foreign: 'code of another project, beside ours',
  elsewhere: 'it needs what a test must not touch: a package registry, root, a container, a cluster',
}

/** Pages that other tests look after, and which. */
const exempt: Readonly<Record<string, string>> = {
  'docs/api.md': 'generated; test/house/api-docs.test.ts holds every example to the schema of its route',
  'docs/tutorial.md': 'followed word for word by tools/follow.ts, in a fresh clone',
}

/** The README is followed like the tutorial, but for its TypeScript: that is run here. README.zh-CN.md has the same blocks. */
const readme = 'README.md'

export type Way = 'program' | 'shell' | 'python' | 'sql' | 'data'

export interface Block extends Snippet {
  /** The heading it stands under; the second block there is `Heading #2`. Checks find it by that. */
  readonly key: string
  /** How it is run, or undefined when it is not. */
  readonly way: Way | undefined
  /** The mark that leaves it out. */
  readonly mark: string | undefined
  /** The file it is the text of, if its fence says `file=…`: written into the page's folder instead of run. */
  readonly file: string | undefined
}

export interface Page {
  /** From the repository's folder: `docs/coming-from/river.md`. */
  readonly path: string
  /** `coming-from/river`: also the name of its prelude. */
  readonly name: string
  readonly blocks: readonly Block[]
}

/** Every page of docs/, in order, except those that other tests cover; and our part of the README. */
export async function readPages(): Promise<readonly Page[]> {
  const names = await readdir(join(root, 'docs'), { recursive: true })
  const paths = names
    .map((name) => `docs/${name.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.md'))
  const ours = [...paths.filter((path) => exempt[path] === undefined).sort(), readme]
  const pages = await Promise.all(
    ours.map(async (path) => decodePage(path, await readFile(join(root, path), 'utf8'))),
  )
  return pages.map((page) =>
    page.path === readme
      ? { ...page, blocks: page.blocks.filter(({ language }) => language === 'ts') }
      : page,
  )
}

/** A page's blocks, and what becomes of each. */
export function decodePage(path: string, text: string): Page {
  const snippets = snippetsOf(text)
  const lines = text.split('\n')
  // A comment of a shell looks like a heading.
  for (const { line, text: code } of snippets) lines.fill('', line, line + code.split('\n').length - 1)
  const counts = new Map<string, number>()
  const blocks = snippets.map((snippet) => {
    const heading = headingAbove(lines, snippet.line)
    const count = (counts.get(heading) ?? 0) + 1
    counts.set(heading, count)
    const words = snippet.info.split(' ')
    const mark = words.find((word) => marks[word] !== undefined)
    return {
      ...snippet,
      key: count === 1 ? heading : `${heading} #${count}`,
      way: mark === undefined ? languages[snippet.language] : undefined,
      mark,
      file: words.find((word) => word.startsWith('file='))?.slice('file='.length),
    }
  })
  return { path, name: path.replace(/^docs\//, '').replace(/\.md$/, ''), blocks }
}

/** Blocks that are neither run nor say why not. */
export function findStrays({ path, blocks }: Page): readonly string[] {
  return blocks
    .filter(({ language, way, mark }) => way === undefined && mark === undefined && !shownOnly.has(language))
    .map(
      ({ language, line }) =>
        `${path}:${line}: a block in "${language}" is neither run nor marked. Use one of ${[...Object.keys(languages), ...shownOnly].filter(Boolean).join(', ')}, or say ${Object.keys(marks).join(' or ')} behind it.`,
    )
}

function headingAbove(lines: readonly string[], line: number): string {
  for (let at = line - 2; at >= 0; at--) {
    const heading = /^#{1,6} +(.+?) *$/.exec(lines[at]!)?.[1]
    if (heading !== undefined) return heading.replaceAll('`', '')
  }
  return ''
}
