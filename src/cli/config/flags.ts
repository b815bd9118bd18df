import { type Command, Option } from 'commander'
import { type ConfigSources, resolveSetting } from './config.ts'
import { flagOf, type SettingName, settingNames, settings, variableOf } from './settings.ts'
import type { Kind } from './value-kinds.ts'

/**
 * Gives a command the flags of these settings, all of them unless said otherwise, and that of the configuration file. They
 * are not checked here: that is done for all sources together.
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

/** Gives a command that works on a database, without a server, the flags to name it by. */
export function addDatabaseFlags<Setting extends Command>(command: Setting): Setting {
  return addSettingFlags(command, ['database'])
}

/** The same for one that works on locks, which a Redis may hold. */
export function addStoreFlags<Setting extends Command>(command: Setting): Setting {
  return addSettingFlags(command, ['database', 'redis'])
}

/** The database that such a command is to work on: the one a server started here would open. */
export function resolveDatabase(command: Command): string {
  return resolveSetting('database', sourcesOf(command))
}

/** What a command's settings are read from. */
export function sourcesOf(command: Command): ConfigSources {
  return { flags: givenFlags(command), env: process.env, folder: process.cwd() }
}

/** Commander shows its variable and what it is by default; the value is looked up with all its sources. */
function addOption<Setting extends Command>(
  command: Setting,
  option: Option,
  variable: string,
  fallback: string,
): Setting {
  option.defaultValueDescription = fallback
  command.addOption(option)
  // Named only now, for else commander would read it.
  option.envVar = variable
  return command
}

/** What was given on the command line, by the setting's name. Commander fills in what was not; that is left out. */
export function givenFlags(command: Command): Readonly<Record<string, unknown>> {
  const names = Object.keys(command.opts()).filter((name) => command.getOptionValueSource(name) === 'cli')
  return Object.fromEntries(names.map((name) => [name, command.getOptionValue(name)]))
}

/** `--no-migrate` is the opposite of what the setting says. */
function describe(name: SettingName): string {
  const { description, default: fallback } = settings[name]
  return fallback === true ? `do not ${description}` : description
}

/** For people; a switch is off unless it is given. */
function shownDefault(name: SettingName): string {
  const { none, kind, default: fallback } = settings[name]
  if (none !== undefined) return none
  return typeof fallback === 'boolean' || fallback === undefined
    ? ''
    : String((kind as Kind<unknown>).show(fallback))
}

/**
 * What a whole configuration is read from. A variable that is no setting may be the twin of any command's flag; where
 * there is such a one, all commands have been loaded.
 */
export function configSources(command: Command): ConfigSources {
  let program = command
  while (program.parent) program = program.parent
  return { ...sourcesOf(command), twins: twinsOf(program) }
}

/** The variables of a command and of all below it. */
export function twinsOf(command: Command): readonly string[] {
  const own = command.options.flatMap(({ envVar }) => envVar ?? [])
  return [...new Set([...own, ...command.commands.flatMap(twinsOf)])]
}
