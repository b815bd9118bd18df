import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { SignalboxError } from '../../core/errors.ts'
import { settingNames } from './settings.ts'

/** What a configuration file says. */
export interface ConfigFile {
  /** For people: as it was named, or its name in the working directory. */
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
}

const usualNames = ['signalbox.config.ts', 'signalbox.config.json']

/** Reads the file that was asked for, else the one that lies in `folder`, if any. Throws `invalid_argument`. */
export function readConfigFile(folder: string, asked?: string): ConfigFile | undefined {
  const found = usualNames.filter((name) => existsSync(resolve(folder, name)))
  // Which of the two counted would be a guess.
  if (asked === undefined && found.length > 1)
    throw refuse(`There are ${found.join(' and ')} here; keep one, or name one with --config.`)
  const name = asked ?? found[0]
  if (name === undefined) return undefined
  const values = /\.m?[jt]s$/.test(name)
    ? runProgram(name, resolve(folder, name))
    : readJson(name, resolve(folder, name))
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw refuse(`${name} must hold an object of settings.`)
  return { name, values: flatten(name, values) }
}

/** Settings of a room may stand together: `{ locks: { multiNode: false } }`, or `multi_node`, is `locksMultiNode`. */
function flatten(name: string, values: object): Readonly<Record<string, unknown>> {
  const entries = Object.entries(values).flatMap(([key, value]) => entriesOf(key, value))
  const [twice] = entries.filter(([key], at) => entries.findIndex(([other]) => other === key) < at)
  if (twice) throw refuse(`${name} says ${twice[0]} twice; keep one.`)
  return Object.fromEntries(entries)
}

function entriesOf(key: string, value: unknown): readonly (readonly [string, unknown])[] {
  const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isGroup || !settingNames.some((name) => isOfRoom(name, key))) return [[key, value]]
  return Object.entries(value).flatMap(([own, one]) => entriesOf(key + capitalized(own), one))
}

/** Whether it is one of a room's settings: `locksMultiNode` is one of `locks`. */
function isOfRoom(setting: string, room: string): boolean {
  return setting.startsWith(room) && /^[A-Z]/.test(setting.slice(room.length))
}

/** `multi_node` and `multiNode` as `MultiNode`. */
function capitalized(key: string): string {
  return `_${key}`.replace(/_+([a-zA-Z])/g, (_, letter: string) => letter.toUpperCase())
}

function readJson(name: string, path: string): unknown {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw refuse(`${name} cannot be read (${(error as NodeJS.ErrnoException).code}).`, error)
  }
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
