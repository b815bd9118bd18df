import { show } from '../../core/options.ts'
import { type ConfigFile, readConfigFile } from './config-file.ts'
import { readSecretKeyFile, readTokenFile } from './named-files.ts'
import { nearestTo, Problems } from './problems.ts'
import { type Config, flagOf, type SettingName, settingNames, settings, variableOf } from './settings.ts'
import type { Kind } from './value-kinds.ts'

/**
 * A complete and checked configuration, with the source of each value:
 *
 *     flags  >  SIGNALBOX_* variables  >  signalbox.config.{ts,json,yaml,yml}  >  defaults
 *
 * All sources are read before an error is thrown, so that the operator sees all mistakes at once, each with its source.
 */
export interface ResolvedConfig {
  readonly values: Config
  /** `--port`, `SIGNALBOX_PORT`, `signalbox.config.json: port` or `default`. */
  readonly sources: Readonly<Record<SettingName, string>>
  /** The configuration file; undefined: none was found. */
  readonly file: string | undefined
  /** The secrets of `token` and of the token file. */
  readonly secrets: readonly string[]
  /** The keys of `secretKey`, then of the secret key file; the first seals. Empty: secrets are stored in plain text. */
  readonly secretKeys: readonly string[]
}

export interface ConfigSources {
  /** The flags on the command line: text, or true and false for switches. Flags that are not given are missing. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly env: Readonly<Record<string, string | undefined>>
  /** The folder of the configuration file. */
  readonly folder: string
  /** Variables that are twins of other flags, so no misspelt settings. @default none */
  readonly twins?: readonly string[]
}

/** Variables that are no settings of a server but may be in its environment. `signalbox lock` sets the last one. */
const otherVariables = [
  'SIGNALBOX_CONFIG',
  'SIGNALBOX_URL',
  'SIGNALBOX_NAMESPACE',
  'SIGNALBOX_QUEUE',
  'SIGNALBOX_LOCK_TOKEN',
]
const prefix = 'SIGNALBOX_'
const usualVariables: readonly string[] = [...settingNames.map(variableOf), ...otherVariables]

/** Lists unknown SIGNALBOX_ variables: misspelt, or the twin of a flag. Variables of the tests do not count. */
export function unfamiliarVariables(env: ConfigSources['env']): readonly string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !name.startsWith(`${prefix}TEST_`))
    .filter((name) => !usualVariables.includes(name))
    .sort()
}

/** Reads and checks all sources. Throws one `invalid_argument` that lists all mistakes. */
export function resolveConfig(given: ConfigSources): ResolvedConfig {
  const problems = new Problems()
  const file = problems.catch(() => readFile(given))
  const values: Record<string, unknown> = {}
  const sources: Record<string, string> = {}
  for (const name of settingNames) {
    const found = findValue(name, given, file)
    sources[name] = found.source
    values[name] = problems.catch(() => checkValue(name, found))
  }
  addUnknownVariables(unfamiliarVariables(given.env), given.twins ?? [], problems)
  for (const { problem } of file?.unknown ?? []) problems.add(problem)
  const config = values as unknown as Config
  addClashes(config, sources, problems)
  addTlsClashes(config, sources, problems)
  const secrets = problems.catch(() => readSecrets(config, sources)) ?? []
  const secretKeys = problems.catch(() => readSecretKeys(config, sources)) ?? []
  problems.throwIfAny()
  const found = sources as Record<SettingName, string>
  return { values: config, sources: found, file: file?.name, secrets, secretKeys }
}

/**
 * Resolves one setting, for commands that need no complete configuration. Other mistakes are ignored, except a misspelt
 * name of this setting.
 */
export function resolveSetting<Name extends SettingName>(name: Name, given: ConfigSources): Config[Name] {
  return checkValue(name, findSetting(name, given)) as Config[Name]
}

/** The same, but undefined if no source sets it. */
export function resolveGiven<Name extends SettingName>(
  name: Name,
  given: ConfigSources,
): Config[Name] | undefined {
  const found = findSetting(name, given)
  return found.source === 'default' ? undefined : (checkValue(name, found) as Config[Name])
}

/** Refuses a misspelt name of the setting, because the default may be another database than the operator wants. */
function findSetting(name: SettingName, given: ConfigSources): Found {
  const file = readFile(given)
  const found = findValue(name, given, file)
  const problems = new Problems()
  for (const unknown of file?.unknown ?? []) if (unknown.name === name) problems.add(unknown.problem)
  problems.throwIfAny()
  if (found.source !== 'default') return found
  const variables = unfamiliarVariables(given.env).filter(
    (word) => nearestVariable(word, usualVariables) === variableOf(name),
  )
  addUnknownVariables(variables, [], problems)
  for (const unknown of file?.unknown ?? [])
    if (nearestTo(unknown.name, settingNames) === name) problems.add(unknown.problem)
  problems.throwIfAny()
  return found
}

function readFile({ flags, env, folder }: ConfigSources): ConfigFile | undefined {
  const asked = flags.config ?? env.SIGNALBOX_CONFIG
  return readConfigFile(folder, asked as string | undefined)
}

interface Found {
  readonly source: string
  readonly value: unknown
}

function findValue(name: SettingName, { flags, env }: ConfigSources, file: ConfigFile | undefined): Found {
  const { kind, default: fallback } = settings[name]
  const read = (value: unknown) => (typeof value === 'string' ? kind.parse(value) : value)
  const flag = flagOf(name)
  if (flag !== undefined && flags[name] !== undefined) return { source: flag, value: read(flags[name]) }
  const variable = variableOf(name)
  // An empty variable is a mistake, not a missing value, so `check` refuses it.
  if (env[variable] !== undefined) return { source: variable, value: read(env[variable]) }
  const fromFile = file !== undefined && Object.hasOwn(file.values, name) ? file.values[name] : undefined
  if (fromFile?.value !== undefined) return { source: fromFile.position, value: fromFile.value }
  return { source: 'default', value: fallback }
}

function checkValue(name: SettingName, { source, value }: Found): unknown {
  if (source === 'default') return value
  return (settings[name].kind as Kind<unknown>).check(source, value)
}

/** Refuses unknown variables, because a misspelt setting must not become its default. */
function addUnknownVariables(names: readonly string[], twins: readonly string[], problems: Problems): void {
  for (const name of names) {
    if (twins.includes(name)) continue
    const nearest = nearestVariable(name, [...usualVariables, ...twins])
    const advice = nearest ? `Did you mean ${nearest}?` : 'Unset it; --help of a command lists its variables.'
    problems.add(`${show(name)} is not a variable of Signalbox. ${advice}`)
  }
}

/** Returns the nearest known variable. Only the part after the common prefix is compared. */
function nearestVariable(name: string, all: readonly string[]): string | undefined {
  const withoutPrefix = (variable: string) => variable.slice(prefix.length)
  const nearest = nearestTo(withoutPrefix(name), all.map(withoutPrefix))
  return nearest && prefix + nearest
}

/** Values that are valid alone but not together. */
function addClashes(config: Config, sources: Readonly<Record<string, string>>, problems: Problems): void {
  const { host, allowedHosts, dispatchHeartbeat, dispatchSuspectAfter, dispatchGoneAfter } = config
  const suspectAfter = dispatchSuspectAfter ?? 2 * dispatchHeartbeat
  if (suspectAfter < dispatchHeartbeat)
    problems.add(
      `${sources.dispatchSuspectAfter} must not be less than the heartbeat of nodes (dispatchHeartbeat, ${dispatchHeartbeat} ms).`,
    )
  if (dispatchGoneAfter !== undefined && dispatchGoneAfter < suspectAfter)
    problems.add(
      `${sources.dispatchGoneAfter} must not be less than dispatchSuspectAfter (${suspectAfter} ms): a node is suspect before it is gone.`,
    )
  if (/^(0\.0\.0\.0|\[?::\]?)$/.test(host ?? '') && allowedHosts?.length === 0)
    problems.add(
      `${sources.host} is ${host}, every address of this machine. Name the hosts that clients use: ` +
        `${flagOf('allowedHosts')} or ${variableOf('allowedHosts')}, such as "jobs.example.com". Other names are refused.`,
    )
}

function addTlsClashes(
  { tlsCert, tlsKey, tlsClientCa }: Config,
  sources: Readonly<Record<string, string>>,
  problems: Problems,
): void {
  for (const [given, missing] of [
    ['tlsCert', 'tlsKey'],
    ['tlsKey', 'tlsCert'],
    ['tlsClientCa', 'tlsCert'],
  ] as const)
    if ({ tlsCert, tlsKey, tlsClientCa }[given] !== undefined && { tlsCert, tlsKey }[missing] === undefined)
      problems.add(
        `${sources[given]} is given without ${flagOf(missing)} or ${variableOf(missing)}: TLS needs a certificate and its key.`,
      )
}

function readSecrets(
  { token, tokenFile }: Config,
  sources: Readonly<Record<string, string>>,
): readonly string[] {
  const fromFile = tokenFile === undefined ? [] : readTokenFile(sources.tokenFile!, tokenFile)
  return [...new Set([...(token === undefined ? [] : [token]), ...fromFile])]
}

function readSecretKeys(
  { secretKey, secretKeyFile }: Pick<Config, 'secretKey' | 'secretKeyFile'>,
  sources: { readonly secretKeyFile?: string },
): readonly string[] {
  const fromFile = secretKeyFile === undefined ? [] : readSecretKeyFile(sources.secretKeyFile!, secretKeyFile)
  return [...(secretKey?.split(',') ?? []), ...fromFile]
}

/** Resolves only the secret keys, for commands that open a store and need no complete configuration. */
export function resolveSecretKeys(given: ConfigSources): readonly string[] {
  const secretKey = resolveSetting('secretKey', given)
  const { source, value } = findSetting('secretKeyFile', given)
  const secretKeyFile = checkValue('secretKeyFile', { source, value }) as string | undefined
  return readSecretKeys({ secretKey, secretKeyFile }, { secretKeyFile: source })
}
