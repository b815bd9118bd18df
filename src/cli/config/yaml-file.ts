import { createRequire } from 'node:module'
import { SignalboxError } from '../../core/errors.ts'

/** What a YAML file holds, and where each of its keys stands. */
export interface YamlFile {
  readonly values: unknown
  /** The line and column of a key, such as `3:5`; undefined for a key that stands behind an alias. */
  positionOf(path: readonly string[]): string | undefined
}

/** Repeated aliases can make a small file huge. */
const maxAliasCount = 100

/**
 * Reads YAML 1.2: `yes` and `on` are text, and a key may stand once. Throws `invalid_argument` with the line and column,
 * and without the text at that place, which may be secret.
 */
export function parseYaml(name: string, text: string): YamlFile {
  // Loaded here, so that only a YAML file costs the time to load the parser.
  const yaml = createRequire(import.meta.url)('yaml') as typeof import('yaml')
  const lines = new yaml.LineCounter()
  const document = yaml.parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset)
    return `${line}:${col}`
  }
  const [fault] = [...document.errors, ...document.warnings]
  if (fault !== undefined) {
    const [reason] = fault.message.split(':')
    throw new SignalboxError('invalid_argument', `${name}:${at(fault.pos[0])} is not YAML: ${reason}.`)
  }
  const positions = new Map<string, string>()
  const visit = (node: unknown, path: readonly string[]) => {
    if (!yaml.isMap(node)) return
    for (const { key, value } of node.items) {
      if (!yaml.isScalar(key)) continue
      const own = [...path, String(key.value)]
      if (key.range) positions.set(JSON.stringify(own), at(key.range[0]))
      visit(value, own)
    }
  }
  visit(document.contents, [])
  try {
    // A file of comments alone holds no setting, and is no mistake.
    const values: unknown = document.toJS({ maxAliasCount }) ?? {}
    return { values, positionOf: (path) => positions.get(JSON.stringify(path)) }
  } catch (error) {
    throw new SignalboxError('invalid_argument', `${name} has aliases that cannot be resolved.`, {
      cause: error,
    })
  }
}
