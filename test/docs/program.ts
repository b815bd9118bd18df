/**
 * A block of TypeScript or JavaScript as a module that Node runs and `tsc` checks. Every line keeps its number in the page, so
 * both speak of `locks.md` line 47 and mean it. Around the block stand braces, so that it may declare what its prelude
 * exports, too; its imports stay before them:
 *
 *     import { findLocal, type Image } from '…/preludes/locks.ts'; …      line 1: what it takes from its prelude
 *     import { open } from 'signalbox'                                    its own
 *     {                                                                   on the line of the last import, or of the fence
 *     await using box = await open('sqlite:signalbox.db')
 *     await $check({ image }) }                                           on the line of the closing fence, while all of it lives
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Block } from './blocks.ts'

const checks = join(import.meta.dirname, 'prelude.ts')

/** What a prelude offers: names, and which of them are types. */
export type Offer = ReadonlyMap<string, 'value' | 'type'>

/** Writes out the module of a block. `text` is the block's, with what was to be replaced in it replaced. */
export function printProgram({ line }: Block, text: string, prelude: string, offer: Offer): string {
  const body = text.replace(/^export (?=const|let|function|async|class|interface|type)/gm, '')
  const lines = body.replace(/\n$/, '').split('\n')
  const lastImport = endOfImports(lines)
  if (lastImport >= 0) lines[lastImport] = lines[lastImport]!.replace(importEnd, '$1; {$2')
  const own = namesImported(lines.slice(0, lastImport + 1).join('\n'))
  const taken = [...offer].filter(
    ([name]) => !own.has(name) && new RegExp(`(?<![\\w.$])${name}\\b`).test(body),
  )
  const names = taken.map(([name, sort]) => (sort === 'type' ? `type ${name}` : name))
  const head = `import { ${names.join(', ')} } from ${JSON.stringify(prelude)}; import { checkHere as $check } from ${JSON.stringify(checks)}`
  const fence = lastImport >= 0 ? '' : ';{'
  const gap = '\n'.repeat(line - 2)
  return `${head}\n${gap}${fence}\n${lines.join('\n')}\nawait $check({ ${declared(lines).join(', ')} }) }\n`
}

/** The exports of a prelude, also those it passes on, as they stand in its text: it need not be run to be asked. */
export function offerOf(file: string): Offer {
  const text = readFileSync(file, 'utf8')
  const offer = new Map<string, 'value' | 'type'>()
  for (const [, path] of text.matchAll(/^export \* from '(\.[^']+)'/gm)) {
    for (const [name, sort] of offerOf(join(dirname(file), path!))) offer.set(name, sort)
  }
  for (const [, sort, name] of text.matchAll(
    /^export (?:declare )?(?:async )?(const|let|function\*?|class|interface|type) (\w+)/gm,
  )) {
    offer.set(name!, sort === 'interface' || sort === 'type' ? 'type' : 'value')
  }
  for (const [, allTypes, list] of text.matchAll(/^export (type )?\{([^}]*)\}/gm)) {
    for (const item of list!
      .split(',')
      .map((each) => each.trim())
      .filter(Boolean)) {
      const name = item
        .replace(/^type /, '')
        .split(' as ')
        .at(-1)!
      offer.set(name, allTypes !== undefined || item.startsWith('type ') ? 'type' : 'value')
    }
  }
  return offer
}

/** A quote at the end of a line, perhaps with a comment behind it. */
const importEnd = /(['"]);?(\s*\/\/.*)?$/

/** The line that the last import ends on, or -1. Imports come first, with only comments between them. */
function endOfImports(lines: readonly string[]): number {
  let last = -1
  let inside = false
  for (const [at, line] of lines.entries()) {
    if (/^import\b(?!\()/.test(line)) inside = true
    else if (!inside && !/^\s*($|\/\/)/.test(line)) break
    if (inside && importEnd.test(line)) {
      inside = false
      last = at
    }
  }
  return last
}

function namesImported(imports: string): ReadonlySet<string> {
  return new Set(imports.replace(/\/\/.*$/gm, '').match(/[\w$]+/g))
}

const declaration = /^(?:const|let|using|await using|function|async function) ([\w$]+|\{[^=]*\}|\[[^=]*\])/

/** What is declared at the outermost level: `const a`, `const { a, b: c }`, `await using d`. */
function declared(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => {
    const target = declaration.exec(line)?.[1]
    if (target === undefined) return []
    const parts = target.replace(/[{}[\]]/g, '').split(',')
    return parts.map((part) => part.split(':').at(-1)!.replace('...', '').trim()).filter(Boolean)
  })
}
