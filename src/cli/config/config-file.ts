import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { SignalboxError } from '../../core/errors.ts'
import { type FileKeys, type PlaceOf, readKeys } from './file-keys.ts'

/** What a configuration file says. */
export interface ConfigFile extends FileKeys {
  /** For people: as it was named, or its name in the working directory. */
  readonly name: string
}

const usualNames = [
  'signalbox.config.ts',
  'signalbox.config.json',
  'signalbox.config.yaml',
  'signalbox.config.yml',
]

/** Reads the file that was asked for, else the one that lies in `folder`, if any. Throws `invalid_argument`. */
export function readConfigFile(folder: string, asked?: string): ConfigFile | undefined {
  const found = usualNames.filter((name) => existsSync(resolve(folder, name)))
  // Which of them counted would be a guess.
  if (asked === undefined && found.length > 1)
    throw refuse(`There are ${found.join(' and ')} here; keep one, or name one with --config.`)
  const name = asked ?? found[0]
  if (name === undefined) return undefined
  const { values, placeOf } = readValues(name, resolve(folder, name))
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw refuse(`${name} must hold an object of settings.`)
  return { name, ...readKeys(values, placeOf) }
}

function readValues(name: string, path: string): { readonly values: unknown; readonly placeOf: PlaceOf } {
  if (/\.m?[jt]s$/.test(name)) return { values: runProgram(name, path), placeOf: () => name }
  const text = readText(name, path)
  if (!/\.ya?ml$/.test(name)) return { values: parseJson(name, text), placeOf: () => name }
  const { values, positionOf } = parseYaml(name, text)
  const placeOf: PlaceOf = (keys) => {
    const position = positionOf(keys)
    return position === undefined ? name : `${name}:${position}`
  }
  return { values, placeOf }
}

function readText(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw refuse(`${name} cannot be read (${(error as NodeJS.ErrnoException).code}).`, error)
  }
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // The parser's message quotes the text, and a setting may be secret; the place it names is enough.
    const [place = ''] = /at position \d+.*$/.exec((error as Error).message) ?? []
    throw refuse(`${name} is not JSON${place && ` (${place})`}.`, error)
  }
}

/**
 * Loads a configuration that is a program: Node runs TypeScript as it stands. It is the operator's own file and the one
 * thing here that is loaded by a computed name; `require` takes modules too and gives them at once.
 */
function runProgram(name: string, path: string): unknown {
  if (!existsSync(path)) throw refuse(`${name} cannot be read (ENOENT).`)
  let loaded: unknown
  try {
    loaded = createRequire(import.meta.url)(path)
  } catch (error) {
    throw refuse(`${name} failed while it was loaded: ${reasonOf(error)}`, error)
  }
  if (typeof loaded === 'object' && loaded !== null && 'default' in loaded) return loaded.default
  throw refuse(`${name} must end in \`export default { … }\`.`)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ((error as NodeJS.ErrnoException).code === 'ERR_REQUIRE_ASYNC_MODULE')
    return 'it must not await at its top level.'
  const [reason = ''] = error.message.split('\n')
  // Which is how Node says that the nearest package.json calls it CommonJS.
  return reason.includes("'export'") ? `${reason}. Put "type": "module" into its package.json.` : reason
}

function refuse(message: string, cause?: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', message, cause === undefined ? {} : { cause })
}

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
