import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show, text } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { Jobs } from '../../jobs/index.ts'
import { resolveGiven, resolveSetting } from '../config/config.ts'
import { addDatabaseFlags, addStoreFlags, givenFlags, sourcesOf } from '../config/flags.ts'

/** Flags that name the server or the store. */
export interface PlaceFlags {
  readonly url?: string
  readonly namespace?: string
  readonly json?: boolean
}

/** The flags of a command: texts that may be given, and switches. */
export type Flags<Text extends string, Switch extends string = never> = PlaceFlags & {
  readonly [Name in Text]?: string
} & { readonly [Name in Switch]?: boolean }

/** A command with examples in its help. Most work on a box. */
export class Verb extends Command {
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

  examples(...lines: readonly string[]): this {
    this.#example = lines[0]
    return this.note('Examples:', ...lines.map((line) => `  signalbox ${line}`))
  }

  /** Verbs below this one. The first example of each is an example of this one. */
  group(...verbs: readonly Verb[]): this {
    for (const verb of verbs) this.addCommand(verb)
    return this.examples(...verbs.flatMap((verb) => verb.#example ?? []))
  }

  /** Adds the flags that name a box. Called last, so that the command's own flags come first in the help. */
  boxFlags(): this {
    return addStoreFlags(addAskFlags(this))
  }

  /** The same for commands about jobs, which are never in a Redis. */
  jobsFlags(): this {
    return addDatabaseFlags(addAskFlags(this))
  }

  /** Adds these flags, too, and opens the box for `act`. */
  onBox<Given extends readonly unknown[]>(
    act: (box: Box | RemoteBox, ...given: Given) => Promise<void>,
    mode?: PlaceMode,
  ): this {
    return this.boxFlags().action(async (...given) => {
      await using box = await openPlace(this, given.at(-2) as PlaceFlags, mode)
      // Commander adds the command itself.
      await act(box, ...(given.slice(0, -1) as unknown as Given))
    })
  }

  onJobs<Given extends readonly unknown[]>(
    act: (jobs: PlacedJobs, ...given: Given) => Promise<void>,
    mode?: PlaceMode,
  ): this {
    return this.jobsFlags().action(async (...given) => {
      await using box = await openPlace(this, given.at(-2) as PlaceFlags, mode)
      await act(box.jobs, ...(given.slice(0, -1) as unknown as Given))
    })
  }
}

function addAskFlags<Asking extends Command>(command: Asking): Asking {
  return command
    .option('--url <url>', 'the server to use; SIGNALBOX_TOKEN holds its token')
    .option('--namespace <name>', 'the namespace (default: default, or the token’s)')
    .option('--json', 'print one line of JSON')
}

/** `look` creates no SQLite file; `make` does. `hold` also keeps trying a server that is away, because a lock must not be lost. */
type PlaceMode = 'look' | 'make' | 'hold'

/** The box of the named server, else on the store that a server started here would open. */
export async function openPlace(
  command: Command,
  flags: PlaceFlags,
  mode: PlaceMode = 'look',
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
  // As those of a server that is started here.
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

/** The verbs of jobs that a server has too. */
export type PlacedJobs = Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'>

/**
 * The address of the server that a command asks: `--url`, else SIGNALBOX_URL, unless a flag names a store. Undefined: it
 * works on a store.
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

/** SIGNALBOX_URL. An empty one is a mistake, such as an unset variable in a script, and does not mean the store. */
export function serverInEnvironment(): string | undefined {
  const url = process.env.SIGNALBOX_URL
  if (url?.trim() === '')
    throw new SignalboxError(
      'invalid_argument',
      'SIGNALBOX_URL is empty. Set it to the address of a server, such as http://127.0.0.1:7420, or unset it.',
    )
  return url
}

/** Commands give up on a server after a few tries, because a person or a script waits for them. */
export function remoteOptions(): { readonly retries: number; readonly token?: string } {
  const token = process.env.SIGNALBOX_TOKEN
  return { retries: 4, ...(token ? { token } : {}) }
}

/**
 * Refuses a command that works on a database only while SIGNALBOX_URL names a server and no database is named: the
 * default would be a new SQLite file in the working directory.
 */
export function requireDatabase(command: Command, verb: string, advice: string): void {
  if (resolveGiven('database', sourcesOf(command)) !== undefined) return
  if (serverInEnvironment() === undefined) return
  throw invalidArgument(
    `SIGNALBOX_URL names a server, and ${verb} works on a database. ${advice} Name the database with --database or SIGNALBOX_DATABASE, or unset SIGNALBOX_URL.`,
  )
}

/** Refuses a missing file: a user in the wrong folder must not see an empty database. */
export function requireFile(database: string): void {
  if (!database.startsWith('sqlite:')) return
  const path = database.replace(/^sqlite:/, '').replace(/\?.*$/s, '')
  if (existsSync(path)) return
  throw new SignalboxError(
    'schema_missing',
    `There is no database ${show(path)}. Name it with --database, name a server with --url, or create one with \`signalbox serve\` or \`signalbox add\`.`,
  )
}
