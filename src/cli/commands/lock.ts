import { hostname } from 'node:os'
import { Command } from 'commander'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import type { Held, Locks } from '../../locks/index.ts'
import { addStoreFlags, resolveDatabase, resolveLocks, resolveRedis } from '../config/flags.ts'
import { spanOf } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { heedSignals, Interrupted, runChild } from './locked-child.ts'
import { serverOf } from './place.ts'

/**
 * `signalbox lock OPERATION RESOURCE -- command…`: waits for the lock, runs the command while it is held, and ends the
 * turn as the command ended. Beyond the command's own exit codes it has three: what `lockExitCodes` says.
 */
export const lockExitCodes: Readonly<Record<'refused' | 'deadline' | 'lost', number>> = {
  /** With --no-wait: another holds it. The command was not run. */
  refused: 75,
  /** The deadline came before the turn did. The command was not run. */
  deadline: 124,
  /** The lock was lost while the command ran, and the command was ended. */
  lost: 125,
}

interface LockFlags {
  readonly node: string
  readonly ttl: string
  readonly wait: boolean
  readonly deadline?: string
  readonly url?: string
  readonly namespace?: string
  readonly json?: boolean
}

/** How it went: how the turn ended, and what to exit with. */
interface LockEnd {
  readonly status: 'released' | 'refused' | 'timeout' | 'lost' | 'interrupted'
  readonly exitCode: number
  /** The fencing token; null: the command was not run. */
  readonly token: number | null
}

export function lockCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  const command = new Command('lock')
    .description('run a command while a lock is held')
    .argument('<operation>', 'what is done')
    .argument('<resource>', 'to what')
    .argument('<command...>', 'the command and its arguments, after --')
    .option('--node <name>', 'who asks', hostname())
    .option('--ttl <span>', 'how long the lock lasts without renewal; it is renewed by itself', '30s')
    .option('--no-wait', `do not wait: exit with ${lockExitCodes.refused} when it is busy`)
    .option('--deadline <span>', `how long to wait at most; then exit with ${lockExitCodes.deadline}`)
    .option('--url <url>', 'the server to ask; its token stands in SIGNALBOX_TOKEN')
    .option('--namespace <name>', 'the namespace of the lock (default: default, or the token’s)')
    .option('--json', 'say at the end, after all that the command printed, how it went in one line of JSON')
    .helpOption('-h, --help', 'print this help')
    .addHelpText(
      'after',
      `\nThe command sees the fencing token as SIGNALBOX_LOCK_TOKEN. Exit code 0 ends the turn as a success, any other as a failure.\n` +
        `Exit codes: the command's own; ${lockExitCodes.refused} refused; ${lockExitCodes.deadline} the deadline came; ${lockExitCodes.lost} the lock was lost.\n` +
        '\nExamples:\n  signalbox lock deploy eu-1 -- ./deploy.sh\n  signalbox lock backup db --no-wait -- pg_dump -f db.sql shop\n  signalbox lock pull app:1.2 --url http://127.0.0.1:7420 --deadline 5m -- docker pull app:1.2',
    )
    .action(async (operation: string, resource: string, words: readonly string[], flags: LockFlags) => {
      await using locks = await openLocks(command, flags)
      const end = await runLocked(locks, operation, resource, words, flags, printer)
      if (flags.json) printer.json({ operation, resource, node: flags.node, ...end })
      endWith(end.exitCode)
    })
  return addStoreFlags(command)
}

async function runLocked(
  locks: Locks,
  operation: string,
  resource: string,
  [program, ...args]: readonly string[],
  { node, ttl, wait, deadline }: LockFlags,
  printer: Printer,
): Promise<LockEnd> {
  const heeding = heedSignals()
  let held: Held
  try {
    // Without --no-wait the server or the configuration decides.
    const asked = wait ? {} : { wait }
    const options = {
      ...{ node, ...asked, signal: heeding.signal },
      ttlMs: spanOf('--ttl', ttl),
      deadlineMs: spanOf('--deadline', deadline) ?? null,
    }
    held = await locks.hold(operation, resource, options)
  } catch (error) {
    return endOf(error, printer)
  } finally {
    heeding.stop()
  }
  const { exitCode, isLost, problem } = await runChild(program!, args, {
    token: held.token,
    lost: held.signal,
  })
  if (problem !== undefined) printer.problem(problem)
  const { token } = held
  const lost: LockEnd = { status: 'lost', exitCode: lockExitCodes.lost, token }
  if (isLost) {
    printer.problem(`${(held.signal.reason as Error).message} The command was ended.`, 'lease_lost')
    return lost
  }
  return (await release(held, exitCode, printer)) ? { status: 'released', exitCode, token } : lost
}

/** Whether the turn was ours to the end. */
async function release(held: Held, exitCode: number, printer: Printer): Promise<boolean> {
  try {
    if (exitCode === 0) await held.release()
    else await held.release({ outcome: 'failure', error: `exit code ${exitCode}` })
    return true
  } catch (error) {
    printer.problem((error as Error).message, isSignalboxError(error) ? error.code : undefined)
    // Without an answer the lease ends the lock. The command was done in time.
    return !isSignalboxError(error, 'lease_lost')
  }
}

function endOf(error: unknown, printer: Printer): LockEnd {
  if (error instanceof Interrupted) return { status: 'interrupted', exitCode: error.exitCode, token: null }
  if (!isSignalboxError(error)) throw error
  const isDeadline = error.code === 'timeout' && error.details.route === undefined
  if (!isDeadline && error.details.status !== 'refused') throw error
  printer.problem(error.message, error.code)
  return isDeadline
    ? { status: 'timeout', exitCode: lockExitCodes.deadline, token: null }
    : { status: 'refused', exitCode: lockExitCodes.refused, token: null }
}

/** The locks of a server where one is named, else of the database that a server started here would open. */
async function openLocks(command: Command, flags: LockFlags): Promise<Locks> {
  const namespace = flags.namespace === undefined ? undefined : text('--namespace', flags.namespace)
  const url = serverOf(command, flags)
  if (url !== undefined) {
    const { openRemote } = await import('../../http/remote/index.ts')
    const token = process.env.SIGNALBOX_TOKEN
    const box = await openRemote(url, { namespace, ...(token ? { token } : {}) })
    return { ...box.locks, [Symbol.asyncDispose]: () => box.close() }
  }
  const database = resolveDatabase(command)
  const redis = resolveRedis(command)
  if (database.startsWith('memory:') && redis === undefined)
    throw new SignalboxError(
      'invalid_argument',
      'A memory: database is in one process only: no other process can share the lock.',
    )
  const { openBackend } = await import('../../storage/open.ts')
  const { createLocks } = await import('../../locks/index.ts')
  const backend = await openBackend(database, {
    namespace: namespace ?? 'default',
    migrate: /^(sqlite|memory):/.test(database),
    redis,
  })
  const { locks: store, notifier, traits } = backend
  const locks = createLocks({ store, notifier, remoteWakeUps: traits.remoteWakeUps }, resolveLocks(command))
  return {
    ...locks,
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose]()
      await backend.close()
    },
  }
}
