import type { Command, Option } from 'commander'
import { invalidArgument } from '../core/errors.ts'
import { show } from '../core/options.ts'
import type { Printer } from './print.ts'

/** What a command is made with. */
export interface Stage {
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
  /** Its heading in the help. */
  readonly group: string
  load(stage: Stage): Promise<Command>
}

/** Every command. A command is loaded when it is named, so that the help starts fast. */
export const verbs: readonly Verb[] = [
  ...under('Run it:', {
    serve: [
      'run the server until it gets SIGINT (Ctrl+C) or SIGTERM',
      (stage) => import('./commands/serve.ts').then((of) => of.serveCommand(stage)),
    ],
    demo: [
      'run a server with a small example fleet',
      (stage) => import('./commands/demo.ts').then((of) => of.demoCommand(stage)),
    ],
    config: [
      'show the configuration',
      (stage) => import('./commands/serve.ts').then((of) => of.configCommand(stage)),
    ],
    doctor: [
      'report weak settings and problems, here or on a server; changes nothing',
      (stage) => import('./commands/doctor.ts').then((of) => of.doctorCommand(stage)),
    ],
  }),
  ...under('The database:', {
    migrate: [
      'migrate the schema of a database, show its state, or print its SQL',
      (stage) => import('./commands/database.ts').then((of) => of.migrateCommand(stage)),
    ],
    copy: [
      'copy all data from one database to an empty one, and verify it',
      (stage) => import('./commands/database.ts').then((of) => of.copyCommand(stage)),
    ],
    token: [
      'create, list and revoke access tokens',
      (stage) => import('./commands/token.ts').then((of) => of.tokenCommand(stage)),
    ],
  }),
  ...under('Jobs:', {
    add: ['add a job', (stage) => import('./commands/jobs/jobs.ts').then((of) => of.addCommand(stage))],
    jobs: [
      'show and search jobs; retry, cancel or delete one or many',
      (stage) => import('./commands/jobs/jobs.ts').then((of) => of.jobsCommand(stage)),
    ],
    queues: [
      'show queues, pause and resume them, and set their limits',
      (stage) => import('./commands/jobs/queues.ts').then((of) => of.queuesCommand(stage)),
    ],
    workers: [
      'show the workers of all processes; quiet, resume and stop them',
      (stage) => import('./commands/jobs/workers.ts').then((of) => of.workersCommand(stage)),
    ],
    schedules: [
      'list, set, pause, resume, run and remove schedules',
      (stage) => import('./commands/jobs/schedules.ts').then((of) => of.schedulesCommand(stage)),
    ],
  }),
  ...under('Locks, guards, changes, nodes, tasks:', {
    lock: [
      'run a command while a lock is held',
      (stage) => import('./commands/locks.ts').then((of) => of.lockCommand(stage)),
    ],
    locks: [
      'show holders and waiters of locks, and evict them',
      (stage) => import('./commands/locks.ts').then((of) => of.locksCommand(stage)),
    ],
    once: [
      'run a command once per key, over all machines',
      (stage) => import('./commands/locks.ts').then((of) => of.onceCommand(stage)),
    ],
    monitor: [
      'list and replay notifications, explain decisions, test channels, encrypt their secrets',
      (stage) => import('./commands/monitor.ts').then((of) => of.monitorCommand(stage)),
    ],
    alerts: [
      'list alerts, alert a channel of problems, test it',
      (stage) => import('./commands/monitor.ts').then((of) => of.alertsCommand(stage)),
    ],
    nodes: [
      'show the nodes that do tasks, drain and cordon them',
      (stage) => import('./commands/dispatch.ts').then((of) => of.nodesCommand(stage)),
    ],
    tasks: [
      'show tasks, cancel them, and explain why one waits',
      (stage) => import('./commands/dispatch.ts').then((of) => of.tasksCommand(stage)),
    ],
  }),
  ...under('Look and measure:', {
    top: [
      'a live view of queues, locks, nodes, workers and tasks',
      (stage) => import('./commands/top.ts').then((of) => of.topCommand(stage)),
    ],
    bench: [
      'measure your database and this machine',
      (stage) => import('./commands/bench.ts').then((of) => of.benchCommand(stage)),
    ],
    completion: [
      'print a script that lets your shell complete commands and flags',
      (stage) => import('./commands/completion.ts').then((of) => of.completionCommand(stage)),
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
