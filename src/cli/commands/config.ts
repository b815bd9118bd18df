import { Command } from 'commander'
import { type ResolvedConfig, resolveConfig } from '../config/config.ts'
import { addSettingFlags, configSources } from '../config/flags.ts'
import { type SettingName, settingNames, settings } from '../config/settings.ts'
import type { Kind } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { printTable } from '../table.ts'

/** `signalbox config print`: what `serve` would run with, and where each value came from. Opens no store. */
export function configCommand(printer: Printer): Command {
  const print = addSettingFlags(new Command('print'))
    .description('print what serve would run with, and where each value came from')
    .helpOption('-h, --help', 'print this help')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox config print\n  SIGNALBOX_PORT=8080 signalbox config print --json',
    )
    .action(() => {
      const config = resolveConfig(configSources(print))
      printConfig(config, printer)
    })
  return new Command('config')
    .description('look at the configuration')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox config print\n  signalbox config print --port 8080 --json',
    )
    .addCommand(print)
}

function printConfig(config: ResolvedConfig, printer: Printer): void {
  const shown = settingNames.map((name) => ({
    name,
    value: shownValue(name, config),
    source: config.sources[name],
  }))
  if (config.values.json) {
    const lines = shown.map(({ name, value, source }) => [name, { value, source }] as const)
    printer.json({ file: config.file ?? null, settings: Object.fromEntries(lines) })
    return
  }
  const rows = shown.map(({ name, value, source }) => [name, textOf(name, value), source] as const)
  printTable(printer, ['SETTING', 'VALUE', 'SOURCE'], rows)
}

function shownValue(name: SettingName, { values }: ResolvedConfig): ReturnType<Kind<unknown>['show']> {
  return (settings[name].kind as Kind<unknown>).show(values[name])
}

function textOf(name: SettingName, value: ReturnType<Kind<unknown>['show']>): string {
  if (value === null || (Array.isArray(value) && value.length === 0))
    return `(${settings[name].none ?? 'not set'})`
  return Array.isArray(value) ? value.join(', ') : String(value)
}
