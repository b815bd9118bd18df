import { Command, CommanderError } from 'commander'
import { isSignalboxError, type SignalboxError } from '../core/errors.ts'
import { version } from '../core/version.ts'
import { addCommand } from './commands/add.ts'
import { completionCommand } from './commands/completion.ts'
import { configCommand } from './commands/config.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { jobsCommand } from './commands/jobs.ts'
import { lockCommand } from './commands/lock.ts'
import { locksCommand } from './commands/locks.ts'
import { migrateCommand } from './commands/migrate.ts'
import { nodesCommand } from './commands/nodes.ts'
import { onceCommand } from './commands/once.ts'
import { queuesCommand } from './commands/queues.ts'
import { schedulesCommand } from './commands/schedules.ts'
import { serveCommand } from './commands/serve.ts'
import { tokenCommand } from './commands/token.ts'
import { topCommand } from './commands/top.ts'
import { problemLines } from './config/problems.ts'
import { createPrinter, type Printer } from './print.ts'

/** How a run can end; docs/cli.md says the same. */
export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

/** What whoever starts the command line may add to it. */
export interface RunHooks {
  /** Done by `serve` once its configuration is good and before anything is opened. */
  readonly prepareServe?: () => Promise<void>
}

/** Runs one command line (without `node` and the script) and gives its exit code. */
export async function run(
  args: readonly string[],
  printer: Printer = createPrinter(),
  hooks: RunHooks = {},
): Promise<number> {
  let exitCode: number = exitCodes.ok
  const endWith = (code: number) => {
    exitCode = code
  }
  try {
    await createProgram(printer, endWith, hooks).parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    return exitCodeOf(error, printer)
  }
}

/** `endWith` is for a command whose answer is not what its caller hoped for, which is no error. */
function createProgram(printer: Printer, endWith: (exitCode: number) => void, hooks: RunHooks): Command {
  const program = new Command('signalbox')
    .description('Keeps a fleet of workers from colliding.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox demo\n  signalbox serve --port 8080\n  signalbox migrate up --database sqlite:signalbox.db\n  signalbox token create --name ci --scope work\n  signalbox lock deploy eu-1 -- ./deploy.sh\n  signalbox config print\n  signalbox serve --help',
    )
    .addCommand(serveCommand(printer, hooks.prepareServe))
    .addCommand(demoCommand(printer, hooks.prepareServe))
    .addCommand(migrateCommand(printer, endWith))
    .addCommand(doctorCommand(printer, endWith))
    .addCommand(tokenCommand(printer))
    .addCommand(addCommand(printer))
    .addCommand(jobsCommand(printer, endWith))
    .addCommand(queuesCommand(printer))
    .addCommand(lockCommand(printer, endWith))
    .addCommand(locksCommand(printer))
    .addCommand(onceCommand(printer, endWith))
    .addCommand(nodesCommand(printer))
    .addCommand(schedulesCommand(printer))
    .addCommand(topCommand(printer))
    .addCommand(configCommand(printer))
    .addCommand(completionCommand(printer))
  // Every line that commander writes passes the printer; it throws instead of ending the process.
  for (const command of [program, ...program.commands.flatMap((command) => [command, ...command.commands])]) {
    command.exitOverride().configureOutput({
      writeOut: (help) => printer.page(help),
      writeErr: (message) => printer.page(message, 'stderr'),
      outputError: (message) => printer.problem(message.replace(/^error: /, '')),
    })
  }
  return program
}

function exitCodeOf(error: unknown, printer: Printer): number {
  // Commander has already said what was wrong; help that was asked for and the version are no errors.
  if (error instanceof CommanderError) {
    return error.code === 'commander.help' || error.exitCode !== 0 ? exitCodes.usage : exitCodes.ok
  }
  if (isSignalboxError(error)) {
    for (const line of problemLines(error)) printer.problem(line + causeOf(error))
    return error.code === 'invalid_argument' ? exitCodes.usage : exitCodes.failure
  }
  // Not foreseen, so a bug: the stack is what a report needs.
  printer.problem(error instanceof Error ? (error.stack ?? error.message) : String(error))
  return exitCodes.failure
}

/** What the database itself said: a person at a shell has no other way to see it. */
function causeOf({ code, message, cause }: SignalboxError): string {
  if (!(cause instanceof Error) || !['store_unavailable', 'store_busy'].includes(code)) return ''
  // A refused connection to a name with several addresses has no message of its own.
  const said = cause.message || String((cause as { code?: unknown }).code ?? '')
  return said === '' || message.includes(said) ? '' : ` (${said})`
}
