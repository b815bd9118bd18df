import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show, text } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { Jobs } from '../../jobs/index.ts'
import { resolveGiven, resolveSetting } from '../config/config.ts'
import { addDatabaseFlags, addStoreFlags, givenFlags, sourcesOf } from '../config/flags.ts'

/** The flags that name a server or a store, and `--json`. */
export interface BoxFlags {
  readonly url?: string
  readonly namespace?: string
  readonly json?: boolean
}

/** The flags of a command: optional texts, and switches. */
export type Flags<Text extends string, Switch extends string = never> = BoxFlags & {
  readonly [Name in Text]?: string
} & { readonly [Name in Switch]?: boolean }

/** A command with examples in its help. Most commands open a box: on a server or on a store. */
export class CliCommand extends Command {
  #example: string | undefined

  constructor(name: string, about = '') {
    super(name)
    this.description(about)
    if (name === 'ls') this.alias('list')
  }

  /** Lines of help under the flags. */
  note(...lines: readonly string[]): this {
    return this.addHelpText('after', `\n${lines.join('\n')}`)
  }

  /** Examples without the name of the program. */
  examples(...lines: readonly string[]): this {
    this.#example = lines[0]
    return this.exampleLines(...lines.map((line) => `signalbox ${line}`))
  }

  /** Examples as complete lines for a shell. */
  exampleLines(...lines: readonly string[]): this {
    return this.note('Examples:', ...lines.map((line) => `  ${line}`))
  }

  /** Adds subcommands. The first example of each is an example of this command. */
  group(...commands: readonly CliCommand[]): this {
    for (const command of commands) this.addCommand(command)
    return this.examples(...commands.flatMap((command) => command.#example ?? []))
  }

  /**
   * Adds the flags that name a box. `prepare` gets the arguments of the command, checks them and returns the function that
   * uses the box. So a mistake in the arguments is reported before the box opens.
   */
  onBox<Given extends readonly unknown[]>(
    prepare: (...given: Given) => (box: Box | RemoteBox) => Promise<void>,
    mode?: OpenMode,
  ): this {
    addStoreFlags(addServerFlags(this))
    return this.#open(prepare, mode)
  }

  /** The same for commands about jobs, which a Redis never holds. */
  onJobs<Given extends readonly unknown[]>(
    prepare: (...given: Given) => (jobs: BoxJobs) => Promise<void>,
    mode?: OpenMode,
  ): this {
    addDatabaseFlags(addServerFlags(this))
    return this.#open((...given: Given) => {
      const act = prepare(...given)
      return (box) => act(box.jobs)
    }, mode)
  }

  #open<Given extends readonly unknown[]>(
    prepare: (...given: Given) => (box: Box | RemoteBox) => Promise<void>,
    mode?: OpenMode,
  ): this {
    return this.action(async (...given) => {
      // Commander adds the command itself.
      const act = prepare(...(given.slice(0, -1) as unknown as Given))
      await using box = await openBox(this, given.at(-2) as BoxFlags, mode)
      await act(box)
    })
  }
}

function addServerFlags<Given extends Command>(command: Given): Given {
  return command
    .option('--url <url>', 'the server to use; SIGNALBOX_TOKEN holds its token')
    .option('--namespace <name>', 'the namespace (default: default, or the token’s)')
    .option('--json', 'print one line of JSON')
}

/**
 * `look` creates no SQLite file; `make` does. `hold` also retries an unreachable server without end, because a lock must
 * not be lost.
 */
type OpenMode = 'look' | 'make' | 'hold'

/** Opens a box on the named server; without one, on the store that `serve` would open with the same settings. */
export async function openBox(
  command: Command,
  flags: BoxFlags,
  mode: OpenMode = 'look',
): Promise<Box | RemoteBox> {
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  const url = serverOf(command, flags)
  if (url !== undefined) {
    const { openRemote } = await import('../../http/remote/index.ts')
    const { retries, ...options } = remoteOptions()
    return openRemote(url, { namespace, ...options, ...(mode === 'hold' ? {} : { retries }) })
  }
  const given = sourcesOf(command)
  const database = resolveSetting('database', given)
  const takesRedis = command.options.some(({ long }) => long === '--redis')
  const redis = takesRedis ? resolveSetting('redis', given) : undefined
  if (database.startsWith('memory:') && redis === undefined)
    throw invalidArgument(
      'A memory: database exists only in the process that opened it. Name another with --database, or a server with --url.',
    )
  if (mode === 'look') requireFile(database)
  const { open } = await import('../../index.ts')
  // The same options as `serve` would use.
  const locks = {
    multiNode: resolveSetting('locksMultiNode', given),
    conflicts: resolveSetting('locksConflicts', given),
  }
  return open(database, { namespace, redis, locks, contention: false })
}

/** Reads a list page by page, to its end. */
export async function readAll<Item>(
  readPage: (cursor: string | undefined) => Promise<{
    readonly items: readonly Item[]
    readonly cursor: string | null
  }>,
): Promise<readonly Item[]> {
  const items: Item[] = []
  let cursor: string | undefined
  do {
    const page = await readPage(cursor)
    items.push(...page.items)
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  return items
}

/** The methods of jobs that a remote box has too. */
export type BoxJobs = Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'>

/**
 * The address of the server that the command uses: `--url`, else SIGNALBOX_URL, unless a flag names a store. Undefined: the
 * command uses a store.
 */
export function serverOf(
  command: Command,
  { url }: { readonly url?: string | undefined },
): string | undefined {
  const { database, redis } = givenFlags(command)
  const namesStore = database !== undefined || redis !== undefined
  if (url !== undefined && namesStore)
    throw invalidArgument('--url names a server; --database and --redis name a store. Give one or the other.')
  // A flag takes precedence over the environment.
  return url ?? (namesStore ? undefined : serverInEnvironment())
}

/** Reads SIGNALBOX_URL. An empty value is an error, such as an unset variable of a script. It does not mean the store. */
export function serverInEnvironment(): string | undefined {
  const url = process.env.SIGNALBOX_URL
  if (url?.trim() === '')
    throw new SignalboxError(
      'invalid_argument',
      'SIGNALBOX_URL is empty. Set it to the address of a server, such as http://127.0.0.1:7420, or unset it.',
    )
  return url
}

/** A command stops after a few tries, because a user or a script waits for it. */
export function remoteOptions(): { readonly retries: number; readonly token?: string } {
  const token = process.env.SIGNALBOX_TOKEN
  return { retries: 4, ...(token ? { token } : {}) }
}

/**
 * Refuses a command that needs a database if only SIGNALBOX_URL is set. Otherwise it would use the default database, a
 * SQLite file in the working directory.
 */
export function requireDatabase(command: Command, verb: string, advice: string): void {
  if (resolveGiven('database', sourcesOf(command)) !== undefined) return
  if (serverInEnvironment() === undefined) return
  throw invalidArgument(
    `SIGNALBOX_URL names a server, and ${verb} works on a database. ${advice} Name the database with --database or SIGNALBOX_DATABASE, or unset SIGNALBOX_URL.`,
  )
}

/** Refuses a missing SQLite file, because a user in the wrong folder must not see an empty database. */
export function requireFile(database: string): void {
  if (!database.startsWith('sqlite:')) return
  const path = database.replace(/^sqlite:/, '').replace(/\?.*$/s, '')
  if (existsSync(path)) return
  throw new SignalboxError(
    'schema_missing',
    `There is no database ${show(path)}. Name it with --database, name a server with --url, or create one with \`signalbox serve\` or \`signalbox add\`.`,
  )
}
