import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { show, text } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { addStoreFlags, givenFlags, resolveDatabase, resolveLocks, resolveRedis } from '../config/flags.ts'

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
  const { database: namesDatabase, redis: namesRedis } = givenFlags(command)
  const namesStore = namesDatabase !== undefined || namesRedis !== undefined
  if (flags.url !== undefined && namesStore)
    throw new SignalboxError(
      'invalid_argument',
      'Either a server (--url) or a store (--database, --redis) is asked; give one of them.',
    )
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  // What was said goes before what merely stands in the environment.
  const url = flags.url ?? (namesStore ? undefined : process.env.SIGNALBOX_URL)
  if (url !== undefined) {
    const { openRemote } = await import('../../remote/index.ts')
    const token = process.env.SIGNALBOX_TOKEN
    return openRemote(url, { namespace, ...(token ? { token } : {}) })
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

/** Whoever looks from a wrong folder should be told, not shown that there is nothing. */
export function requireFile(database: string): void {
  if (!database.startsWith('sqlite:')) return
  const path = database.replace(/^sqlite:/, '').replace(/\?.*$/s, '')
  if (existsSync(path)) return
  throw new SignalboxError(
    'schema_missing',
    `There is no database ${show(path)}. Name it with --database, name a server with --url, or begin one: \`signalbox serve\`, \`signalbox add\`.`,
  )
}
