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

/** The groups of the help, with all commands and their purpose. */
const groups = {
  'Run it:': {
    serve: 'run the server until it gets SIGINT (Ctrl+C) or SIGTERM',
    demo: 'run a server with a small example fleet',
    config: 'show the configuration',
    doctor: 'report weak settings and problems, here or on a server; changes nothing',
  },
  'The database:': {
    migrate: 'migrate the schema of a database, show its state, or print its SQL',
    copy: 'copy all data from one database to an empty one, and verify it',
    token: 'create, list and revoke access tokens',
  },
  'Jobs:': {
    add: 'add a job',
    jobs: 'show and search jobs; retry, cancel or delete one or many',
    queues: 'show queues, pause and resume them, and set their limits',
    workers: 'show the workers of all processes; quiet, resume and stop them',
    schedules: 'list, set, pause, resume, run and remove schedules',
  },
  'Locks, guards, changes, nodes, tasks:': {
    lock: 'run a command while a lock is held',
    locks: 'show holders and waiters of locks, and evict them',
    once: 'run a command once per key, over all machines',
    monitor: 'list and replay notifications, explain decisions, test channels, encrypt their secrets',
    alerts: 'list alerts, alert a channel of problems, test it',
    nodes: 'show the nodes that do tasks, drain and cordon them',
    tasks: 'show tasks, cancel them, and explain why one waits',
  },
  'Look and measure:': {
    top: 'a live view of queues, locks, nodes, workers and tasks',
    bench: 'measure your database and this machine',
    completion: 'print a script that lets your shell complete commands and flags',
  },
}

/** Loads a command. Only the commands that a command line needs are loaded, so that the help starts fast. */
const loaders: Readonly<Record<string, Verb['load']>> = {
  serve: async (context) => (await import('./commands/serve.ts')).serveCommand(context),
  demo: async (context) => (await import('./commands/demo.ts')).demoCommand(context),
  config: async (context) => (await import('./commands/serve.ts')).configCommand(context),
  doctor: async (context) => (await import('./commands/doctor.ts')).doctorCommand(context),
  migrate: async (context) => (await import('./commands/database.ts')).migrateCommand(context),
  copy: async (context) => (await import('./commands/database.ts')).copyCommand(context),
  token: async (context) => (await import('./commands/token.ts')).tokenCommand(context),
  add: async (context) => (await import('./commands/jobs/jobs.ts')).addCommand(context),
  jobs: async (context) => (await import('./commands/jobs/jobs.ts')).jobsCommand(context),
  queues: async (context) => (await import('./commands/jobs/queues.ts')).queuesCommand(context),
  workers: async (context) => (await import('./commands/jobs/workers.ts')).workersCommand(context),
  schedules: async (context) => (await import('./commands/jobs/schedules.ts')).schedulesCommand(context),
  lock: async (context) => (await import('./commands/locks.ts')).lockCommand(context),
  locks: async (context) => (await import('./commands/locks.ts')).locksCommand(context),
  once: async (context) => (await import('./commands/locks.ts')).onceCommand(context),
  monitor: async (context) => (await import('./commands/monitor.ts')).monitorCommand(context),
  alerts: async (context) => (await import('./commands/monitor.ts')).alertsCommand(context),
  nodes: async (context) => (await import('./commands/dispatch.ts')).nodesCommand(context),
  tasks: async (context) => (await import('./commands/dispatch.ts')).tasksCommand(context),
  top: async (context) => (await import('./commands/top.ts')).topCommand(context),
  bench: async (context) => (await import('./commands/bench.ts')).benchCommand(context),
  completion: async (context) => (await import('./commands/completion.ts')).completionCommand(context),
}

export const verbs: readonly Verb[] = Object.entries(groups).flatMap(([group, commands]) =>
  Object.entries(commands).map(([name, about]) => ({ name, about, group, load: loaders[name]! })),
)

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
