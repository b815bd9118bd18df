import { show } from '../../core/options.ts'
import { nearestTo } from '../nearest.ts'
import { type SettingName, settingNames, settings, variableOf } from './settings.ts'

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

export function readKeys(values: object, placeOf: PlaceOf): FileKeys {
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
