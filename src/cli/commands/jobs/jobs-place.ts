import type { Command } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import { text } from '../../../core/options.ts'
import type { Jobs } from '../../../jobs/index.ts'
import { addDatabaseFlags, resolveDatabase } from '../../config/flags.ts'
import { remoteOptions, requireFile, serverOf } from '../place.ts'

/** Where the jobs are that a command is about: on a server, or in a database. */
export interface PlaceFlags {
  readonly url?: string
  readonly namespace?: string
  readonly json?: boolean
}

export function addPlaceFlags(command: Command): Command {
  return addDatabaseFlags(
    command
      .option('--url <url>', 'the server to ask; its token stands in SIGNALBOX_TOKEN')
      .option('--namespace <name>', 'the namespace of the jobs (default: default, or the token’s)')
      .option('--json', 'answer with one line of JSON')
      .helpOption('-h, --help', 'print this help'),
  )
}

/** Those verbs that a remote box has as well. */
export type PlacedJobs = Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'>

/** The jobs of a server where one is named, else of the database that a server started here would open. */
export async function openJobs(
  command: Command,
  flags: PlaceFlags,
  mode: 'look' | 'make' = 'look',
): Promise<PlacedJobs> {
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  const url = serverOf(command, flags)
  if (url !== undefined) {
    const { openRemote } = await import('../../../http/remote/index.ts')
    const box = await openRemote(url, { namespace, ...remoteOptions() })
    return { ...box.jobs, [Symbol.asyncDispose]: () => box.close() }
  }
  const database = resolveDatabase(command)
  if (database.startsWith('memory:'))
    throw new SignalboxError(
      'invalid_argument',
      'A memory: database is in one process only: there is nothing to find.',
    )
  if (mode === 'look') requireFile(database)
  const { openBackend } = await import('../../../storage/open.ts')
  const { createJobs } = await import('../../../jobs/index.ts')
  const backend = await openBackend(database, { namespace: namespace ?? 'default', migrate: false })
  const { jobs: store, logs, schedules, notifier } = backend
  const jobs = createJobs({ store, logs, schedules, notifier })
  return {
    ...jobs,
    async [Symbol.asyncDispose]() {
      await jobs[Symbol.asyncDispose]()
      await backend.close()
    },
  }
}
