import type { Command } from 'commander'
import type { Printer } from './print.ts'

/** What a command is made with. */
export interface Stage {
  readonly printer: Printer
  /** For a command whose answer is not what its caller hoped for, which is no error. */
  readonly endWith: (exitCode: number) => void
  /** Done by `serve` and `demo` before anything is opened. */
  readonly prepareServe: (() => Promise<void>) | undefined
}

/**
 * Every command there is. A command line is started again and again, and help is what it is asked for most: so a verb is
 * loaded when it is named, and the help of the whole is made of this table.
 */
export interface Verb {
  readonly name: string
  /** One line; the same as the command's own description. */
  readonly about: string
  /** Under which heading of the help it stands. */
  readonly group: string
  load(stage: Stage): Promise<Command>
}

const running = 'Run it:'
const database = 'The database:'
const jobs = 'Jobs:'
const fleet = 'Locks, guards, changes, nodes, tasks:'
const looking = 'Look and measure:'

export const verbs: readonly Verb[] = [
  {
    name: 'serve',
    about: 'run the server until it gets SIGINT (Ctrl+C) or SIGTERM',
    group: running,
    load: async ({ printer, prepareServe }) =>
      (await import('./commands/serve.ts')).serveCommand(printer, prepareServe),
  },
  {
    name: 'demo',
    about: 'run a server with a small fleet at work, to look at',
    group: running,
    load: async ({ printer, prepareServe }) =>
      (await import('./commands/demo.ts')).demoCommand(printer, prepareServe),
  },
  {
    name: 'config',
    about: 'look at the configuration',
    group: running,
    load: async ({ printer }) => (await import('./commands/config.ts')).configCommand(printer),
  },
  {
    name: 'doctor',
    about: 'look for weak settings and trouble, here or on a server; it changes nothing',
    group: running,
    load: async ({ printer, endWith }) =>
      (await import('./commands/doctor.ts')).doctorCommand(printer, endWith),
  },
  {
    name: 'migrate',
    about: 'bring the schema of a database up to date, say where it stands, or print its steps',
    group: database,
    load: async ({ printer, endWith }) =>
      (await import('./commands/migrate.ts')).migrateCommand(printer, endWith),
  },
  {
    name: 'copy',
    about: 'copy everything from one database to another that is empty, and prove it',
    group: database,
    load: async ({ printer }) => (await import('./commands/copy.ts')).copyCommand(printer),
  },
  {
    name: 'token',
    about: 'make, list and revoke the tokens that let clients speak to the server',
    group: database,
    load: async ({ printer }) => (await import('./commands/token.ts')).tokenCommand(printer),
  },
  {
    name: 'add',
    about: 'add a job',
    group: jobs,
    load: async ({ printer }) => (await import('./commands/jobs/add.ts')).addCommand(printer),
  },
  {
    name: 'jobs',
    about: 'show and search jobs; retry or cancel one; retry, cancel or delete all that are found',
    group: jobs,
    load: async ({ printer, endWith }) =>
      (await import('./commands/jobs/jobs.ts')).jobsCommand(printer, endWith),
  },
  {
    name: 'queues',
    about: 'show queues, pause and resume them, and set their limits',
    group: jobs,
    load: async ({ printer }) => (await import('./commands/jobs/queues.ts')).queuesCommand(printer),
  },
  {
    name: 'schedules',
    about: 'jobs that are added by the clock: list, set, pause, resume, run and remove them',
    group: jobs,
    load: async ({ printer }) => (await import('./commands/jobs/schedules.ts')).schedulesCommand(printer),
  },
  {
    name: 'lock',
    about: 'run a command while a lock is held',
    group: fleet,
    load: async ({ printer, endWith }) => (await import('./commands/lock.ts')).lockCommand(printer, endWith),
  },
  {
    name: 'locks',
    about: 'show who holds locks and who waits, and evict them',
    group: fleet,
    load: async ({ printer }) => (await import('./commands/locks.ts')).locksCommand(printer),
  },
  {
    name: 'once',
    about: 'run a command unless it was done before under this key, anywhere',
    group: fleet,
    load: async ({ printer, endWith }) => (await import('./commands/once.ts')).onceCommand(printer, endWith),
  },
  {
    name: 'monitor',
    about: 'list and replay notifications, explain a venue, try a channel, seal channel secrets',
    group: fleet,
    load: async ({ printer, endWith }) =>
      (await import('./commands/monitor.ts')).monitorCommand(printer, endWith),
  },
  {
    name: 'nodes',
    about: 'show the nodes that do tasks, drain and cordon them',
    group: fleet,
    load: async ({ printer }) => (await import('./commands/nodes.ts')).nodesCommand(printer),
  },
  {
    name: 'tasks',
    about: 'show tasks, cancel them, and explain why one waits',
    group: fleet,
    load: async ({ printer }) => (await import('./commands/tasks.ts')).tasksCommand(printer),
  },
  {
    name: 'top',
    about: 'a live view of queues, locks, nodes and contention',
    group: looking,
    load: async ({ printer }) => (await import('./commands/top.ts')).topCommand(printer),
  },
  {
    name: 'bench',
    about: 'measure what your database and this machine can do',
    group: looking,
    load: async ({ printer, endWith }) =>
      (await import('./commands/bench.ts')).benchCommand(printer, endWith),
  },
  {
    name: 'completion',
    about: 'print a script that lets your shell complete commands and flags',
    group: looking,
    load: async ({ printer }) => (await import('./commands/completion.ts')).completionCommand(printer),
  },
]
