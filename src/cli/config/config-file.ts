import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { nearestTo } from './problems.ts'
import { type SettingName, settingNames, settings, variableOf } from './settings.ts'

/** A configuration file. */
export interface ConfigFile extends FileKeys {
  /** Its name as given, or in the working directory. */
  readonly name: string
}

const usualNames = [
  'signalbox.config.ts',
  'signalbox.config.json',
  'signalbox.config.yaml',
  'signalbox.config.yml',
]

/** Reads the given file, else the configuration file in `folder`, if any. Throws `invalid_argument`. */
export function readConfigFile(folder: string, given?: string): ConfigFile | undefined {
  const found = usualNames.filter((name) => existsSync(resolve(folder, name)))
  // With several files, it is unclear which one counts.
  if (given === undefined && found.length > 1)
    throw refuse(`There are ${found.join(' and ')} here; keep one, or name one with --config.`)
  const name = given ?? found[0]
  if (name === undefined) return undefined
  const { values, positionOf } = readValues(name, resolve(folder, name))
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw refuse(`${name} must hold an object of settings.`)
  return { name, ...readKeys(values, positionOf) }
}

function readValues(
  name: string,
  path: string,
): { readonly values: unknown; readonly positionOf: PositionOf } {
  if (/\.m?[jt]s$/.test(name)) return { values: runProgram(name, path), positionOf: () => name }
  const text = readText(name, path)
  if (!/\.ya?ml$/.test(name)) return { values: parseJson(name, text), positionOf: () => name }
  return parseYaml(name, text)
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
    // The parser's message quotes the text, which may have secrets, so only its position is shown.
    const [position = ''] = /at position \d+.*$/.exec((error as Error).message) ?? []
    throw refuse(`${name} is not JSON${position && ` (${position})`}.`, error)
  }
}

/**
 * Loads a configuration that is a program; Node runs TypeScript without a build. This is the operator's own file, and the
 * only import with a computed name. `require` loads modules too, and synchronously.
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
  // This message of Node means that the nearest package.json says CommonJS.
  return reason.includes("'export'") ? `${reason}. Put "type": "module" into its package.json.` : reason
}

function refuse(message: string, cause?: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', message, cause === undefined ? {} : { cause })
}

/** A limit, because repeated aliases can make a small file huge. */
const maxAliasCount = 100

/**
 * Reads YAML 1.2: `yes` and `on` are text, and a key may exist once. Throws `invalid_argument` with line and column, but
 * without the text there, which may be secret.
 */
function parseYaml(
  name: string,
  text: string,
): { readonly values: unknown; readonly positionOf: PositionOf } {
  // Loaded here, so that only a YAML file loads the parser.
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
    throw invalidArgument(`${name}:${at(fault.pos[0])} is not YAML: ${reason}.`)
  }
  const positions = new Map<string, string>()
  const visit = (node: unknown, path: readonly string[]) => {
    if (!yaml.isMap(node)) return
    for (const { key, value } of node.items) {
      if (!yaml.isScalar(key)) continue
      const own = [...path, String(key.value)]
      if (key.range) positions.set(JSON.stringify(own), `${name}:${at(key.range[0])}`)
      visit(value, own)
    }
  }
  visit(document.contents, [])
  try {
    // A file with only comments has no settings, and is valid.
    const values: unknown = document.toJS({ maxAliasCount }) ?? {}
    // A key behind an alias has no position.
    return { values, positionOf: (path) => positions.get(JSON.stringify(path)) ?? name }
  } catch (error) {
    throw new SignalboxError('invalid_argument', `${name} has aliases that cannot be resolved.`, {
      cause: error,
    })
  }
}

/**
 * The keys of a configuration file as settings. A key may be in camelCase, snake_case or kebab-case. Settings with the same
 * beginning may be in a group: `monitor: { distributed: { lock_ttl: 30s } }` is `monitorDistributedLockTtl`. An unknown
 * key is an error with the nearest known key; it is never ignored.
 */
interface FileKeys {
  /** By the name of the setting. */
  readonly values: Readonly<Record<string, FileValue>>
  readonly unknown: readonly UnknownKey[]
}

interface FileValue {
  readonly value: unknown
  /** Such as `signalbox.config.yaml:3:5: monitor.distributed.lock_ttl`. */
  readonly position: string
}

interface UnknownKey {
  /** In camelCase, like the settings. */
  readonly name: string
  /** The mistake, and the nearest known key. */
  readonly problem: string
}

/** The position of a key, such as `signalbox.config.yaml:3:5`; only the name of the file if the position is unknown. */
type PositionOf = (path: readonly string[]) => string

function readKeys(values: object, positionOf: PositionOf): FileKeys {
  const known: Record<string, FileValue> = {}
  const unknown: UnknownKey[] = []
  const visit = (given: object, prefix: string, path: readonly string[]) => {
    for (const [key, value] of Object.entries(given)) {
      const name = joined(prefix, key)
      const own = [...path, key]
      const position = `${positionOf(own)}: ${own.join('.')}`
      if (isGroup(value) && settingNames.some((setting) => isOfGroup(setting, name))) visit(value, name, own)
      else if (!isFileSetting(name)) unknown.push({ name, problem: explain(position, own, prefix, value) })
      else if (Object.hasOwn(known, name))
        unknown.push({
          name,
          problem: `${position} is a second ${name}; the first is at ${known[name]!.position}. Keep one.`,
        })
      else known[name] = { value, position }
    }
  }
  visit(values, '', [])
  return { values: known, unknown }
}

function isGroup(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a setting belongs to a group: `locksMultiNode` belongs to `locks`. */
function isOfGroup(setting: string, group: string): boolean {
  return setting.startsWith(group) && /^[A-Z]/.test(setting.slice(group.length))
}

/** Whether a file may have this setting. */
function isFileSetting(name: string): boolean {
  return settingNames.some((setting) => setting === name && !settings[setting].secret)
}

/** Joins `monitor` and `lock_ttl` to `monitorLockTtl`. */
function joined(prefix: string, key: string): string {
  const camel = key.replace(/[_-]+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase())
  return prefix === '' ? camel : prefix + camel.charAt(0).toUpperCase() + camel.slice(1)
}

function explain(position: string, path: readonly string[], prefix: string, value: unknown): string {
  const name = path.join('.')
  const key = path.at(-1)!
  const setting = joined(prefix, key)
  if (settings[setting as SettingName]?.secret)
    return `${position} is not taken from a file of settings. Set ${variableOf(setting)}, or name a file with ${setting}File.`
  const all = candidates(prefix, isGroup(value)).map((candidate) => spelt(candidate, key))
  const nearest = nearestTo(key, all)
  const parent = path.slice(0, -1)
  const fullName = (word: string) => [...parent, word].join('.')
  const advice = nearest
    ? `Did you mean ${fullName(nearest)}?`
    : `Remove it; there ${all.length === 1 ? 'is' : 'are'} ${all.map(fullName).join(', ')}.`
  return `${position.slice(0, position.length - name.length)}${show(name)} is no setting. ${advice}`
}

/** The allowed keys of a group: its settings without the group's name. With `ofGroups`: the groups inside it. */
function candidates(prefix: string, ofGroups: boolean): readonly string[] {
  const rests = settingNames
    .filter((name) => !settings[name].secret && (prefix === '' || isOfGroup(name, prefix)))
    .map((name) => name.slice(prefix.length))
    .map((rest) => rest.charAt(0).toLowerCase() + rest.slice(1))
  if (!ofGroups) return rests
  const beginnings = rests.flatMap((rest) => {
    const words = rest.split(/(?=[A-Z])/)
    return words.slice(1).map((_, count) => words.slice(0, count + 1).join(''))
  })
  return [...new Set(beginnings)]
}

/** Spells the candidate like `key`: in camelCase, snake_case or kebab-case. */
function spelt(candidate: string, key: string): string {
  const sign = key.includes('-') ? '-' : key.includes('_') ? '_' : undefined
  return sign === undefined ? candidate : candidate.replace(/[A-Z]/g, (letter) => sign + letter.toLowerCase())
}
