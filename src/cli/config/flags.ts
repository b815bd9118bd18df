import { type Command, Option } from 'commander'
import { type ConfigSources, resolveSetting } from './config.ts'
import { flagOf, type SettingName, settingNames, settings, variableOf } from './settings.ts'
import type { Kind } from './value-kinds.ts'

/**
 * Adds the flags of these settings (@default all) and of the configuration file. config.ts checks their values, together
 * with the other sources.
 */
export function addSettingFlags<Setting extends Command>(
  command: Setting,
  names: readonly SettingName[] = settingNames,
): Setting {
  for (const name of names) {
    const flag = flagOf(name)
    const { takes } = settings[name]
    if (flag === undefined) continue
    const option = new Option(takes === undefined ? flag : `${flag} <${takes}>`, describe(name))
    addOption(command, option, variableOf(name), shownDefault(name))
  }
  const file = new Option('--config <file>', 'configuration file')
  return addOption(command, file, 'SIGNALBOX_CONFIG', 'signalbox.config.ts, .json or .yaml here')
}

/** Adds the flags that name a database. */
export function addDatabaseFlags<Setting extends Command>(command: Setting): Setting {
  return addSettingFlags(command, ['database'])
}

/** Adds the flags that name a database, and a Redis with the locks. */
export function addStoreFlags<Setting extends Command>(command: Setting): Setting {
  return addSettingFlags(command, ['database', 'redis'])
}

/** The database of such a command: the one that `serve` would open with the same settings. */
export function resolveDatabase(command: Command): string {
  return resolveSetting('database', sourcesOf(command))
}

/** The sources of a command's settings. */
export function sourcesOf(command: Command): ConfigSources {
  return { flags: givenFlags(command), env: process.env, folder: process.cwd() }
}

/** Adds an option. Commander only shows its variable and default; config.ts reads the value from all sources. */
function addOption<Setting extends Command>(
  command: Setting,
  option: Option,
  variable: string,
  fallback: string,
): Setting {
  option.defaultValueDescription = fallback
  command.addOption(option)
  // Set after `addOption`, because otherwise commander would read the variable.
  option.envVar = variable
  return command
}

/** The flags on the command line, by the name of the setting, without the defaults of commander. */
export function givenFlags(command: Command): Readonly<Record<string, unknown>> {
  const names = Object.keys(command.opts()).filter((name) => command.getOptionValueSource(name) === 'cli')
  return Object.fromEntries(names.map((name) => [name, command.getOptionValue(name)]))
}

/** Describes the flag: `--no-migrate` is the opposite of the setting. */
function describe(name: SettingName): string {
  const { description, default: fallback } = settings[name]
  return fallback === true ? `do not ${description}` : description
}

/** The default for the help. A switch shows none, because it is off unless it is given. */
function shownDefault(name: SettingName): string {
  const { none, kind, default: fallback } = settings[name]
  if (none !== undefined) return none
  return typeof fallback === 'boolean' || fallback === undefined
    ? ''
    : String((kind as Kind<unknown>).show(fallback))
}

/**
 * The sources of a complete configuration. A variable that is no setting may be the twin of a flag of any command. `run`
 * loaded all commands if there is such a variable.
 */
export function configSources(command: Command): ConfigSources {
  let program = command
  while (program.parent) program = program.parent
  return { ...sourcesOf(command), twins: twinsOf(program) }
}

/** The variables of a command and its subcommands. */
export function twinsOf(command: Command): readonly string[] {
  const own = command.options.flatMap(({ envVar }) => envVar ?? [])
  return [...new Set([...own, ...command.commands.flatMap(twinsOf)])]
}
