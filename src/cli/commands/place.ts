import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { show, text } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { resolveGiven } from '../config/config.ts'
import {
  addStoreFlags,
  givenFlags,
  resolveDatabase,
  resolveLocks,
  resolveRedis,
  sourcesOf,
} from '../config/flags.ts'

/** Where the things are that a command is about: on a server, or in a store. */
export interface PlaceFlags {
  readonly url?: string
  readonly namespace?: string
  readonly json?: boolean
}

export function addBoxFlags(command: Command): Command {
  return addStoreFlags(
    command
      .option('--url <url>', 'the server to ask; its token stands in SIGNALBOX_TOKEN')
      .option('--namespace <name>', 'the namespace (default: default, or the token’s)')
      .option('--json', 'answer with one line of JSON')
      .helpOption('-h, --help', 'print this help'),
  )
}

/**
 * The box of a server where one is named, else on the store that a server started here would open. To `look` at a SQLite
 * file that is not there makes none; to `make` something there does.
 */
export async function openPlace(
  command: Command,
  flags: PlaceFlags,
  mode: 'look' | 'make' = 'look',
): Promise<Box | RemoteBox> {
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  const url = serverOf(command, flags)
  if (url !== undefined) {
    const { openRemote } = await import('../../http/remote/index.ts')
    return openRemote(url, { namespace, ...remoteOptions() })
  }
  const database = resolveDatabase(command)
  const redis = resolveRedis(command)
  if (database.startsWith('memory:') && redis === undefined)
    throw new SignalboxError(
      'invalid_argument',
      'A memory: database is in one process only: there is nothing to find.',
    )
  if (mode === 'look') requireFile(database)
  const { open } = await import('../../index.ts')
  return open(database, { namespace, redis, locks: resolveLocks(command), contention: false })
}

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
    throw new SignalboxError(
      'invalid_argument',
      '--url names a server, --database and --redis name a store. Give one or the other.',
    )
  // A flag goes before what merely stands in the environment.
  return url ?? (namesStore ? undefined : serverInEnvironment())
}

/** SIGNALBOX_URL. An empty one is a mistake, as of a variable in a script that has no value: no store is meant by it. */
export function serverInEnvironment(): string | undefined {
  const url = process.env.SIGNALBOX_URL
  if (url?.trim() === '')
    throw new SignalboxError(
      'invalid_argument',
      'SIGNALBOX_URL is empty. Set it to the address of a server, such as http://127.0.0.1:7420, or unset it.',
    )
  return url
}

/** How commands speak to a server. They give up after a few tries, because a person or a script waits for them. */
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
  throw new SignalboxError(
    'invalid_argument',
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
    `There is no database ${show(path)}. Name it with --database, name a server with --url, or begin one: \`signalbox serve\`, \`signalbox add\`.`,
  )
}
