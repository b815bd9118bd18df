import type { Command, Option } from 'commander'
import { invalidArgument } from '../core/errors.ts'
import { show } from '../core/options.ts'
import type { Printer } from './print.ts'

/** The parts that commands use. */
export interface CommandContext {
  readonly printer: Printer
  /** Sets the exit code of a command that ends without an error. */
  readonly endWith: (exitCode: number) => void
  /** `serve` and `demo` call it before they open anything. */
  readonly prepareServe: (() => Promise<void>) | undefined
}

/** A command of the first level. */
export interface Verb {
  readonly name: string
  readonly about: string
  /** Its group in the help. */
  readonly group: string
  load(context: CommandContext): Promise<Command>
}

/** All commands. A command loads only when the command line names it, so that the help starts fast. */
export const verbs: readonly Verb[] = [
  ...under('Run it:', {
    serve: [
      'run the server until it gets SIGINT (Ctrl+C) or SIGTERM',
      (context) => import('./commands/serve.ts').then((of) => of.serveCommand(context)),
    ],
    demo: [
      'run a server with a small example fleet',
      (context) => import('./commands/demo.ts').then((of) => of.demoCommand(context)),
    ],
    config: [
      'show the configuration',
      (context) => import('./commands/serve.ts').then((of) => of.configCommand(context)),
    ],
    doctor: [
      'report weak settings and problems, here or on a server; changes nothing',
      (context) => import('./commands/doctor.ts').then((of) => of.doctorCommand(context)),
    ],
  }),
  ...under('The database:', {
    migrate: [
      'migrate the schema of a database, show its state, or print its SQL',
      (context) => import('./commands/database.ts').then((of) => of.migrateCommand(context)),
    ],
    copy: [
      'copy all data from one database to an empty one, and verify it',
      (context) => import('./commands/database.ts').then((of) => of.copyCommand(context)),
    ],
    token: [
      'create, list and revoke access tokens',
      (context) => import('./commands/token.ts').then((of) => of.tokenCommand(context)),
    ],
  }),
  ...under('Jobs:', {
    add: ['add a job', (context) => import('./commands/jobs/jobs.ts').then((of) => of.addCommand(context))],
    jobs: [
      'show and search jobs; retry, cancel or delete one or many',
      (context) => import('./commands/jobs/jobs.ts').then((of) => of.jobsCommand(context)),
    ],
    queues: [
      'show queues, pause and resume them, and set their limits',
      (context) => import('./commands/jobs/queues.ts').then((of) => of.queuesCommand(context)),
    ],
    workers: [
      'show the workers of all processes; quiet, resume and stop them',
      (context) => import('./commands/jobs/workers.ts').then((of) => of.workersCommand(context)),
    ],
    schedules: [
      'list, set, pause, resume, run and remove schedules',
      (context) => import('./commands/jobs/schedules.ts').then((of) => of.schedulesCommand(context)),
    ],
  }),
  ...under('Locks, guards, changes, nodes, tasks:', {
    lock: [
      'run a command while a lock is held',
      (context) => import('./commands/locks.ts').then((of) => of.lockCommand(context)),
    ],
    locks: [
      'show holders and waiters of locks, and evict them',
      (context) => import('./commands/locks.ts').then((of) => of.locksCommand(context)),
    ],
    once: [
      'run a command once per key, over all machines',
      (context) => import('./commands/locks.ts').then((of) => of.onceCommand(context)),
    ],
    monitor: [
      'list and replay notifications, explain decisions, test channels, encrypt their secrets',
      (context) => import('./commands/monitor.ts').then((of) => of.monitorCommand(context)),
    ],
    alerts: [
      'list alerts, alert a channel of problems, test it',
      (context) => import('./commands/monitor.ts').then((of) => of.alertsCommand(context)),
    ],
    nodes: [
      'show the nodes that do tasks, drain and cordon them',
      (context) => import('./commands/dispatch.ts').then((of) => of.nodesCommand(context)),
    ],
    tasks: [
      'show tasks, cancel them, and explain why one waits',
      (context) => import('./commands/dispatch.ts').then((of) => of.tasksCommand(context)),
    ],
  }),
  ...under('Look and measure:', {
    top: [
      'a live view of queues, locks, nodes, workers and tasks',
      (context) => import('./commands/top.ts').then((of) => of.topCommand(context)),
    ],
    bench: [
      'measure your database and this machine',
      (context) => import('./commands/bench.ts').then((of) => of.benchCommand(context)),
    ],
    completion: [
      'print a script that lets your shell complete commands and flags',
      (context) => import('./commands/completion.ts').then((of) => of.completionCommand(context)),
    ],
  }),
]

function under(
  group: string,
  commands: Readonly<Record<string, readonly [about: string, load: Verb['load']]>>,
): readonly Verb[] {
  return Object.entries(commands).map(([name, [about, load]]) => ({ name, about, group, load }))
}

/**
 * Every flag has a twin: an environment variable that counts if the flag is not given. The table of settings names the
 * twins of settings (`--database`: SIGNALBOX_DATABASE). This table names the twins of flags with one meaning everywhere.
 * The twin of any other flag has the name of its command: `jobs ls --limit` is SIGNALBOX_JOBS_LS_LIMIT.
 */
const sharedTwins: Readonly<Record<string, string>> = {
  url: 'SIGNALBOX_URL',
  namespace: 'SIGNALBOX_NAMESPACE',
  json: 'SIGNALBOX_JSON',
}

/** Adds twins to the flags of a command and of its subcommands. */
export function addTwins(command: Command, path: readonly string[] = []): void {
  for (const option of command.options) {
    const name = option.attributeName()
    // A flag with a variable is a setting, which config.ts reads from all its sources. Only `--json` is also read here,
    // because the commands use its flag.
    const isSetting = option.envVar !== undefined
    option.envVar ??= sharedTwins[name] ?? twinOf(path, option)
    // `serverOf` reads SIGNALBOX_URL, because a flag for a store takes precedence over it.
    if ((!isSetting || name === 'json') && name !== 'url') readFromTwin(command, option, option.envVar)
  }
  for (const sub of command.commands) addTwins(sub, [...path, sub.name()])
}

/** The twin of `lock --no-wait` is SIGNALBOX_LOCK_WAIT, with the opposite value. */
function twinOf(path: readonly string[], option: Option): string {
  const words = [...path, option.name().replace(/^no-/, '')].join('-')
  return `SIGNALBOX_${words.replaceAll('-', '_').toUpperCase()}`
}

/** Sets the option from its variable. Commander emits the event if the variable is set and the flag is not given. */
function readFromTwin(command: Command, option: Option, variable: string): void {
  command.on(`optionEnv:${option.name()}`, () => {
    const value = parseTwin(option, variable, process.env[variable] ?? '')
    command.setOptionValueWithSource(option.attributeName(), value, 'env')
  })
}

function parseTwin(option: Option, variable: string, given: string): unknown {
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
