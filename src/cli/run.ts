import { Command, CommanderError, type Option } from 'commander'
import { isSignalboxError, type SignalboxError } from '../core/errors.ts'
import { version } from '../core/version.ts'
import { problemLines } from './config/problems.ts'
import { createPrinter, type Printer, withJsonProblems } from './print.ts'
import { addTwins, type Stage, verbs } from './verbs.ts'

/** How a run can end; docs/cli.md says the same. */
export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

/** What the caller may add to a run. */
export interface RunHooks {
  /** Done by `serve` once its configuration is good and before anything is opened. */
  readonly prepareServe?: () => Promise<void>
}

/** Runs one command line (without `node` and the script) and gives its exit code. */
export async function run(
  args: readonly string[],
  given: Printer = createPrinter(),
  hooks: RunHooks = {},
): Promise<number> {
  let exitCode: number = exitCodes.ok
  const printer = wantsJson(args) ? withJsonProblems(given) : given
  const endWith = (code: number) => {
    exitCode = code
  }
  try {
    const stage = { printer, endWith, prepareServe: hooks.prepareServe }
    const program = await createProgram(stage, await verbsFor(args))
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    return exitCodeOf(error, printer)
  }
}

/** Known before the command line is parsed, so that its errors can be JSON too. */
function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  const own = end === -1 ? args : args.slice(0, end)
  return own.includes('--json') || process.env.SIGNALBOX_JSON === 'true'
}

/** The verbs to load: the named one; all for `completion`, or if a variable may be the twin of any flag. */
async function verbsFor(args: readonly string[]): Promise<readonly string[]> {
  const named = args.find((word) => !word.startsWith('-'))
  if (named === undefined) return []
  return named === 'completion' || (await hasUnfamiliarVariable()) ? verbs.map(({ name }) => name) : [named]
}

async function hasUnfamiliarVariable(): Promise<boolean> {
  const names = Object.keys(process.env).filter((name) => name.startsWith('SIGNALBOX_'))
  if (names.length === 0) return false
  const { unfamiliarVariables } = await import('./config/config.ts')
  return unfamiliarVariables(process.env).length > 0
}

/** The whole command line, with those verbs that are named ready to run; the others are names with a line of help. */
export async function createProgram(stage: Stage, loaded: readonly string[]): Promise<Command> {
  const { printer } = stage
  const program = new Command('signalbox')
    .description('Keeps a fleet of workers from colliding.')
    .usage('<command> [options]')
    .version(version, '-V, --version', 'print the version')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox demo\n  signalbox serve --port 8080\n  signalbox add mail.welcome --payload \'{"to":"ada@example.org"}\'\n  signalbox jobs ls --search "state:dead"\n  signalbox lock deploy eu-1 -- ./deploy.sh\n  signalbox doctor\n' +
        '\n`signalbox <command> --help` has examples of each, with all flags and their twins in the environment.',
    )
  for (const { name, about, group, load } of verbs) {
    const command = loaded.includes(name) ? await load(stage) : new Command(name)
    program.addCommand(command.description(about).helpGroup(group))
  }
  for (const command of program.commands) addTwins(command, [command.name()])
  for (const command of everyCommand(program)) {
    // Every line that commander writes passes the printer; it throws instead of ending the process.
    command
      .exitOverride()
      .helpOption('-h, --help', 'print this help')
      .helpCommand(false)
      .configureHelp({ optionDescription: describeOption })
      .configureOutput({
        writeOut: (help) => printer.page(help),
        writeErr: (message) => printer.page(message, 'stderr'),
        outputError: (message) => printer.problem(message.replace(/^error: /, ''), 'invalid_argument'),
      })
  }
  return program
}

/** A command and all below it. */
export function everyCommand(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(everyCommand)]
}

function exitCodeOf(error: unknown, printer: Printer): number {
  // Commander has already said what was wrong; help that was asked for and the version are no errors.
  if (error instanceof CommanderError) {
    return error.code === 'commander.help' || error.exitCode !== 0 ? exitCodes.usage : exitCodes.ok
  }
  if (isSignalboxError(error)) {
    for (const line of problemLines(error))
      printer.problem(line + causeOf(error) + adviceFor(error), error.code)
    return error.code === 'invalid_argument' ? exitCodes.usage : exitCodes.failure
  }
  // Not foreseen, so a bug: the stack is what a report needs.
  printer.problem(error instanceof Error ? (error.stack ?? error.message) : String(error), 'internal')
  return exitCodes.failure
}

/** Advice for a person at a shell. */
function adviceFor({ code }: SignalboxError): string {
  return code === 'unauthorized'
    ? ' Set SIGNALBOX_TOKEN. `signalbox token create` creates tokens: on a server with an admin token, or on its database (--database) without one.'
    : ''
}

/** The message of the database: a person at a shell has no other way to see it. */
function causeOf({ code, message, cause }: SignalboxError): string {
  if (!(cause instanceof Error) || !['store_unavailable', 'store_busy'].includes(code)) return ''
  // A refused connection to a name with several addresses has no message.
  const said = cause.message || String((cause as { code?: unknown }).code ?? '')
  return said === '' || message.includes(said) ? '' : ` (${said})`
}

/** A description may end in "(default: …)" itself, where that is words and no value. */
const ownDefault = / \(default: ([^()]*)\)$/

/** A flag in the help: what it does, what it may be, what it is unless it is given, and its twin in the environment. */
function describeOption(option: Option): string {
  const { description, argChoices, defaultValueDescription, defaultValue, envVar } = option
  const takesValue = option.required || option.optional
  const value = takesValue && defaultValue !== undefined ? String(defaultValue) : undefined
  const fallback = defaultValueDescription || value || ownDefault.exec(description)?.[1]
  const about = [
    ...(argChoices ? [`one of ${argChoices.join(', ')}`] : []),
    ...(fallback === undefined ? [] : [`default: ${fallback}`]),
    ...(envVar === undefined ? [] : [`env: ${envVar}`]),
  ]
  const does = description.replace(ownDefault, '')
  return about.length === 0 ? does : `${does} (${about.join('; ')})`
}
