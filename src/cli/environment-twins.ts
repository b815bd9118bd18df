import type { Command, Option } from 'commander'
import { invalidArgument } from '../core/errors.ts'
import { show } from '../core/options.ts'

/**
 * Every flag has a twin in the environment, which counts where the flag was not given. Settings have theirs from their
 * table (`--database` is SIGNALBOX_DATABASE), and so have those flags that mean the same everywhere; any other flag is
 * called by its command: `jobs ls --limit` is SIGNALBOX_JOBS_LS_LIMIT.
 */
const shared: Readonly<Record<string, string>> = {
  url: 'SIGNALBOX_URL',
  namespace: 'SIGNALBOX_NAMESPACE',
  json: 'SIGNALBOX_JSON',
}

/** Gives every flag of a command, and of those below it, its twin. */
export function addTwins(command: Command, path: readonly string[] = []): void {
  for (const option of command.options) {
    const name = option.attributeName()
    // What has one already is a setting, which is looked up with all its sources; the switch for JSON is read here too,
    // since commands that take every setting answer by it.
    const isSetting = option.envVar !== undefined
    option.envVar ??= shared[name] ?? twinOf(path, option)
    // `serverOf` chooses between the server and the database that are named.
    if ((!isSetting || name === 'json') && name !== 'url') listen(command, option, option.envVar)
  }
  for (const sub of command.commands) addTwins(sub, [...path, sub.name()])
}

/** The variables of a command and of all below it. */
export function twinsOf(command: Command): readonly string[] {
  const own = command.options.flatMap(({ envVar }) => envVar ?? [])
  return [...new Set([...own, ...command.commands.flatMap(twinsOf)])]
}

/** `--no-wait` of `lock` is SIGNALBOX_LOCK_WAIT, as it is the opposite that is asked for. */
function twinOf(path: readonly string[], option: Option): string {
  const words = [...path, option.name().replace(/^no-/, '')].join('-')
  return `SIGNALBOX_${words.replaceAll('-', '_').toUpperCase()}`
}

/** Commander emits this when the variable is set and the flag is not given. */
function listen(command: Command, option: Option, variable: string): void {
  command.on(`optionEnv:${option.name()}`, () => {
    const value = readTwin(option, variable, process.env[variable] ?? '')
    command.setOptionValueWithSource(option.attributeName(), value, 'env')
  })
}

function readTwin(option: Option, variable: string, given: string): unknown {
  const refuse = (allowed: string) => invalidArgument(`${variable} must be ${allowed}, not ${show(given)}.`)
  if (option.isBoolean() || option.negate) {
    if (given !== 'true' && given !== 'false') throw refuse('true or false')
    return given === 'true'
  }
  // An empty variable is a mistake, not a missing value.
  if (given === '') throw refuse(`what ${option.long} takes`)
  if (option.argChoices && !option.argChoices.includes(given)) throw refuse(option.argChoices.join(', '))
  return option.variadic ? given.split(',').map((word) => word.trim()) : given
}
