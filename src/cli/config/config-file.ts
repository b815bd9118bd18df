import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import { nearestTo } from './problems.ts'
import { type SettingName, settingNames, settings, variableOf } from './settings.ts'

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

/** Repeated aliases can make a small file huge. */
const maxAliasCount = 100

/**
 * Reads YAML 1.2: `yes` and `on` are text, and a key may stand once. Throws `invalid_argument` with the line and column,
 * and without the text at that place, which may be secret.
 */
function parseYaml(name: string, text: string): { readonly values: unknown; readonly placeOf: PlaceOf } {
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
    throw invalidArgument(`${name}:${at(fault.pos[0])} is not YAML: ${reason}.`)
  }
  const places = new Map<string, string>()
  const visit = (node: unknown, path: readonly string[]) => {
    if (!yaml.isMap(node)) return
    for (const { key, value } of node.items) {
      if (!yaml.isScalar(key)) continue
      const own = [...path, String(key.value)]
      if (key.range) places.set(JSON.stringify(own), `${name}:${at(key.range[0])}`)
      visit(value, own)
    }
  }
  visit(document.contents, [])
  try {
    // A file of comments alone holds no setting, and is no mistake.
    const values: unknown = document.toJS({ maxAliasCount }) ?? {}
    // A key that stands behind an alias has no place of its own.
    return { values, placeOf: (path) => places.get(JSON.stringify(path)) ?? name }
  } catch (error) {
    throw new SignalboxError('invalid_argument', `${name} has aliases that cannot be resolved.`, {
      cause: error,
    })
  }
}

/**
 * The keys of a configuration file as settings. A key may be spelt in camelCase, snake_case or kebab-case, and settings
 * that begin alike may stand together: `monitor: { distributed: { lock_ttl: 30s } }` is `monitorDistributedLockTtl`. An
 * unknown key is an error that names the nearest known key; it is never ignored.
 */
export interface FileKeys {
  /** By setting, with the place in the file. */
  readonly values: Readonly<Record<string, FileValue>>
  readonly unknown: readonly UnknownKey[]
}

export interface FileValue {
  readonly value: unknown
  /** For people: `signalbox.config.yaml:3:5: monitor.distributed.lock_ttl`. */
  readonly place: string
}

export interface UnknownKey {
  /** In camelCase, as the settings are. */
  readonly name: string
  /** The mistake, and the key that was probably meant. */
  readonly problem: string
}

/** Where a key stands in its file, such as `signalbox.config.yaml:3:5`; the file's name where that is not known. */
export type PlaceOf = (path: readonly string[]) => string

function readKeys(values: object, placeOf: PlaceOf): FileKeys {
  const known: Record<string, FileValue> = {}
  const unknown: UnknownKey[] = []
  const visit = (given: object, prefix: string, path: readonly string[]) => {
    for (const [key, value] of Object.entries(given)) {
      const name = joined(prefix, key)
      const own = [...path, key]
      const place = `${placeOf(own)}: ${own.join('.')}`
      if (isGroup(value) && settingNames.some((setting) => isOfGroup(setting, name))) visit(value, name, own)
      else if (!isTakenFromFile(name)) unknown.push({ name, problem: explain(place, own, prefix, value) })
      else if (Object.hasOwn(known, name))
        unknown.push({
          name,
          problem: `${place} is a second ${name}; the first is at ${known[name]!.place}. Keep one.`,
        })
      else known[name] = { value, place }
    }
  }
  visit(values, '', [])
  return { values: known, unknown }
}

function isGroup(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether it is one of a group's settings: `locksMultiNode` is one of `locks`. */
function isOfGroup(setting: string, group: string): boolean {
  return setting.startsWith(group) && /^[A-Z]/.test(setting.slice(group.length))
}

function isTakenFromFile(name: string): boolean {
  return settingNames.some((setting) => setting === name && !settings[setting].secret)
}

/** `monitor` and `lock_ttl` as `monitorLockTtl`. */
function joined(prefix: string, key: string): string {
  const camel = key.replace(/[_-]+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase())
  return prefix === '' ? camel : prefix + camel.charAt(0).toUpperCase() + camel.slice(1)
}

function explain(place: string, path: readonly string[], prefix: string, value: unknown): string {
  const name = path.join('.')
  const key = path.at(-1)!
  const setting = joined(prefix, key)
  if (settings[setting as SettingName]?.secret)
    return `${place} is not taken from a file of settings. Set ${variableOf(setting)}, or name a file with ${setting}File.`
  const all = candidates(prefix, isGroup(value)).map((candidate) => spelt(candidate, key))
  const meant = nearestTo(key, all)
  const parent = path.slice(0, -1)
  const said = (word: string) => [...parent, word].join('.')
  const advice = meant
    ? `Did you mean ${said(meant)}?`
    : `Remove it; there ${all.length === 1 ? 'is' : 'are'} ${all.map(said).join(', ')}.`
  return `${place.slice(0, place.length - name.length)}${show(name)} is no setting. ${advice}`
}

/** The keys that a group may have: its settings without the group's name. `ofGroups`: the groups inside it instead. */
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

/** The candidate in the spelling of `key`: camelCase, snake_case or kebab-case. */
function spelt(candidate: string, key: string): string {
  const sign = key.includes('-') ? '-' : key.includes('_') ? '_' : undefined
  return sign === undefined ? candidate : candidate.replace(/[A-Z]/g, (letter) => sign + letter.toLowerCase())
}
