import { Command, CommanderError, type Option } from 'commander'
import { isSignalboxError, type SignalboxError } from '../core/errors.ts'
import { version } from '../core/version.ts'
import { problemLines } from './config/problems.ts'
import { createPrinter, type Printer, withJsonProblems } from './print.ts'
import { addTwins, type CommandContext, verbs } from './verbs.ts'

/** The exit codes of signalbox, as in docs/cli.md. */
export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

/** Options of the caller of `run`. */
export interface RunHooks {
  /** `serve` and `demo` call it after they checked the configuration, before they open anything. */
  readonly prepareServe?: () => Promise<void>
}

/** Runs one command line (without `node` and the script). Returns its exit code. */
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
    const context = { printer, endWith, prepareServe: hooks.prepareServe }
    const program = await createProgram(context, await verbsFor(args))
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    return exitCodeOf(error, printer)
  }
}

/** Reads `--json` before the command line is parsed, so that errors of parsing are JSON too. */
function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  const own = end === -1 ? args : args.slice(0, end)
  return own.includes('--json') || process.env.SIGNALBOX_JSON === 'true'
}

/** The commands to load: the named one; all for `completion`, or if an unknown variable may be the twin of any flag. */
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

/** Creates the whole command line. Only the commands in `loaded` can run; the others have their line of help. */
export async function createProgram(context: CommandContext, loaded: readonly string[]): Promise<Command> {
  const { printer } = context
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
    const command = loaded.includes(name) ? await load(context) : new Command(name)
    program.addCommand(command.description(about).helpGroup(group))
  }
  for (const command of program.commands) addTwins(command, [command.name()])
  for (const command of everyCommand(program)) {
    // Commander writes through the printer, and throws instead of ending the process.
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

/** Lists a command and all its subcommands. */
export function everyCommand(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(everyCommand)]
}

function exitCodeOf(error: unknown, printer: Printer): number {
  // Commander has already printed the error. Help and version are no errors.
  if (error instanceof CommanderError) {
    return error.code === 'commander.help' || error.exitCode !== 0 ? exitCodes.usage : exitCodes.ok
  }
  if (isSignalboxError(error)) {
    for (const line of problemLines(error))
      printer.problem(line + causeOf(error) + adviceFor(error), error.code)
    return error.code === 'invalid_argument' ? exitCodes.usage : exitCodes.failure
  }
  // An unexpected error is a bug, and a bug report needs the stack.
  printer.problem(error instanceof Error ? (error.stack ?? error.message) : String(error), 'internal')
  return exitCodes.failure
}

/** Advice for a user at a shell. */
function adviceFor({ code }: SignalboxError): string {
  return code === 'unauthorized'
    ? ' Set SIGNALBOX_TOKEN. `signalbox token create` creates tokens: on a server with an admin token, or on its database (--database) without one.'
    : ''
}

/** The message of the database, which a user at a shell sees nowhere else. */
function causeOf({ code, message, cause }: SignalboxError): string {
  if (!(cause instanceof Error) || !['store_unavailable', 'store_busy'].includes(code)) return ''
  // A refused connection to a name with several addresses has only a code.
  const reason = cause.message || String((cause as { code?: unknown }).code ?? '')
  return reason === '' || message.includes(reason) ? '' : ` (${reason})`
}

/** A description may end in "(default: …)" itself, if the default is described and not a value. */
const describedDefault = / \(default: ([^()]*)\)$/

/** Describes a flag for the help: its purpose, values, default and variable. */
function describeOption(option: Option): string {
  const { description, argChoices, defaultValueDescription, defaultValue, envVar } = option
  const takesValue = option.required || option.optional
  const value = takesValue && defaultValue !== undefined ? String(defaultValue) : undefined
  const fallback = defaultValueDescription || value || describedDefault.exec(description)?.[1]
  const about = [
    ...(argChoices ? [`one of ${argChoices.join(', ')}`] : []),
    ...(fallback === undefined ? [] : [`default: ${fallback}`]),
    ...(envVar === undefined ? [] : [`env: ${envVar}`]),
  ]
  const purpose = description.replace(describedDefault, '')
  return about.length === 0 ? purpose : `${purpose} (${about.join('; ')})`
}
