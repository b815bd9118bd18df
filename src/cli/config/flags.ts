import { type Command, Option } from 'commander'
import type { LocksOptions } from '../../locks/index.ts'
import { resolveSetting } from './config.ts'
import type { Kind } from './kinds.ts'
import { flagOf, type SettingName, settingNames, settings, variableOf } from './settings.ts'

/** Gives a command the flag of every setting. They are not checked here: that is done for all sources together. */
export function addSettingFlags(command: Command): Command {
  return addFlags(command, settingNames)
}

/** Gives a command that works on a database, without a server, the flags to name it by. */
export function addDatabaseFlags(command: Command): Command {
  return addFlags(command, ['database'])
}

/** The same for one that works on locks, which a Redis may hold. */
export function addStoreFlags(command: Command): Command {
  return addFlags(command, ['database', 'redis'])
}

/** How the locks of a server started here behave. */
export function resolveLocks(command: Command): LocksOptions {
  const given = { flags: givenFlags(command), env: process.env, folder: process.cwd() }
  return {
    multiNode: resolveSetting('locksMultiNode', given),
    conflicts: resolveSetting('locksConflicts', given),
  }
}

/** The Redis that holds the locks of a server started here; undefined where the database does. */
export function resolveRedis(command: Command): string | undefined {
  return resolveSetting('redis', { flags: givenFlags(command), env: process.env, folder: process.cwd() })
}

/** The database that such a command is to work on: the one a server started here would open. */
export function resolveDatabase(command: Command): string {
  return resolveSetting('database', { flags: givenFlags(command), env: process.env, folder: process.cwd() })
}

function addFlags(command: Command, names: readonly SettingName[]): Command {
  for (const name of names) {
    const flag = flagOf(name)
    const { takes } = settings[name]
    if (flag !== undefined)
      command.addOption(new Option(takes === undefined ? flag : `${flag} <${takes}>`, describe(name)))
  }
  return command.addOption(
    new Option(
      '--config <file>',
      'configuration file (env: SIGNALBOX_CONFIG; default: signalbox.config.ts or .json here)',
    ),
  )
}

/** What was given on the command line, by the setting's name. Commander fills in what was not; that is left out. */
export function givenFlags(command: Command): Readonly<Record<string, unknown>> {
  const names = Object.keys(command.opts()).filter((name) => command.getOptionValueSource(name) === 'cli')
  return Object.fromEntries(names.map((name) => [name, command.getOptionValue(name)]))
}

function describe(name: SettingName): string {
  const { description, none, kind, default: fallback } = settings[name]
  // `--no-migrate` is the opposite of what the setting says; and a switch is off unless it is given.
  const isSwitch = typeof fallback === 'boolean'
  const does = isSwitch && fallback ? `do not ${description}` : description
  const shown =
    none ?? (isSwitch || fallback === undefined ? '' : String((kind as Kind<unknown>).show(fallback)))
  return `${does} (env: ${variableOf(name)}${shown === '' ? '' : `; default: ${shown}`})`
}
