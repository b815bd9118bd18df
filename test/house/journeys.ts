/**
 * The journeys of ARCHITECTURE.md: for one thing that users do, the files that a reader follows, in order. This follows
 * them through the imports. A file of a list must be imported by an earlier file of the list, or by a join point: a file that
 * puts a store or a handler behind its interface. An `index.ts` between the two counts if it passes a name on. The first
 * file is an entry: an `index.ts` exports from it.
 */
import { posix } from 'node:path'
import { scanImports, withoutComments } from './imports.ts'
import type { Sources } from './sources.ts'

export interface Journey {
  readonly title: string
  /** Files that join the others; paths from the repository's folder, as of `steps`. */
  readonly joins: readonly string[]
  readonly steps: readonly Step[]
}

export interface Step {
  readonly path: string
  /** The step in a few words. */
  readonly about: string
}

/** Decodes the journeys of a page: a heading, a line `Joined in: …`, and a numbered list. Paths start in `src`. */
export function decodeJourneys(page: string): readonly Journey[] {
  const journeys: { title: string; joins: string[]; steps: Step[] }[] = []
  let title = ''
  for (const line of page.split('\n')) {
    title = /^### (.*)/.exec(line)?.[1] ?? title
    const joined = /^Joined in:? (.*)/.exec(line)?.[1]
    if (joined !== undefined) journeys.push({ title, joins: pathsIn(joined), steps: [] })
    const step = /^\d+\. (`[^`]+`) (.*)/.exec(line)
    if (step !== null) journeys.at(-1)?.steps.push({ path: pathsIn(step[1]!)[0]!, about: step[2]! })
  }
  return journeys
}

function pathsIn(text: string): string[] {
  return Array.from(text.matchAll(/`([^`]+\.ts)`/g), ([, path]) => `src/${path}`)
}

/** The mistakes of a journey: files that are missing, come twice, or that no earlier file and no join point imports. */
export function findBreaks({ title, joins, steps }: Journey, sources: Sources): readonly string[] {
  const missing = [...joins, ...steps.map(({ path }) => path)].filter((path) => !sources.has(path))
  if (missing.length > 0) return missing.map((path) => `${title}: there is no ${path}`)
  return steps.flatMap(({ path }, index) => {
    const before = steps.slice(0, index).map((step) => step.path)
    if (before.includes(path)) return [`${title}: ${path} comes twice`]
    const importers = index === 0 ? entriesOf(sources) : [...before, ...joins]
    if (importers.some((from) => doesImport(from, path, sources))) return []
    return [`${title}: no earlier file and no join point imports ${path}`]
  })
}

function entriesOf(sources: Sources): readonly string[] {
  return [...sources.keys()].filter((path) => path.endsWith('/index.ts'))
}

/** Whether a file imports another, or a name of it through index.ts, or starts it as a thread. */
function doesImport(from: string, to: string, sources: Sources): boolean {
  const text = sources.get(from)!
  const resolve = (specifier: string) => posix.join(posix.dirname(from), specifier)
  const direct = scanImports(text).flatMap(({ specifier }) =>
    specifier?.startsWith('.') ? [resolve(specifier)] : [],
  )
  const threads = Array.from(text.matchAll(/new URL\('(\.[^']+)', import\.meta\.url\)/g), ([, path]) =>
    resolve(path!),
  )
  if ([...direct, ...threads].includes(to)) return true
  const faces = namedImports(text).filter(({ specifier }) => specifier.endsWith('/index.ts'))
  return faces.some(({ names, specifier }) =>
    names.some((name) => passesOn(resolve(specifier), name, to, sources)),
  )
}

/** Whether an index.ts passes this name on from that file, perhaps by way of another index.ts. */
function passesOn(index: string, name: string, to: string, sources: Sources): boolean {
  const text = sources.get(index)
  if (text === undefined) return false
  return scanImports(text).some(({ specifier }) => {
    if (!specifier?.startsWith('.')) return false
    const path = posix.join(posix.dirname(index), specifier)
    if (path === to) return declares(sources.get(to)!, name)
    return path.endsWith('/index.ts') && passesOn(path, name, to, sources)
  })
}

function declares(text: string, name: string): boolean {
  return new RegExp(
    `^export (?:abstract )?(?:async )?(?:function\\*?|const|class|interface|type) ${name}\\b`,
    'm',
  ).test(text)
}

/** `import { a, type B } from './c.ts'` as names and where they are from. */
function namedImports(text: string): readonly { names: readonly string[]; specifier: string }[] {
  const statements = withoutComments(text).matchAll(
    /^import\s+(?:type\s+)?\{([^}]*)\}\s*from\s*'(\.[^']+)'/gm,
  )
  return Array.from(statements, ([, list, specifier]) => ({
    names: list!.split(',').map(
      (item) =>
        item
          .trim()
          .replace(/^type /, '')
          .split(' as ')[0]!,
    ),
    specifier: specifier!,
  }))
}
