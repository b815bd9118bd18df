import { hostname } from 'node:os'
import type { Command } from 'commander'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { Box, RemoteBox } from '../../index.ts'
import type { Held, Locks } from '../../locks/index.ts'
import { addStoreFlags } from '../config/flags.ts'
import { spanOf } from '../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand, type Flags, openBox, readAll } from './cli-command.ts'
import { Interrupted, runChild, watchSignals } from './locked-child.ts'

/** `signalbox locks ls|evict`: lists locks and evicts holders or waiters. */
export function locksCommand({ printer }: CommandContext): Command {
  return new CliCommand('locks').group(listCommand(printer), evictCommand(printer))
}

function listCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list locks that are held or waited for, with their holders')
    .option('--operation <name>', 'only this operation')
    .option('--search <text>', 'only resources that contain this text')
    .examples('locks ls', 'locks ls --operation pull --json')
    .onBox(({ json, operation, search }: Flags<'operation' | 'search'>) => async (box) => {
      const items = await readAll((cursor) => box.locks.list({ operation, search, cursor, limit: 500 }))
      if (json) return printer.json({ items })
      const now = Date.now()
      const heads = ['OPERATION', 'RESOURCE', 'HOLDER', 'FOR', 'LEASE LEFT', 'WAITING']
      printList(printer, { items }, 'No lock is held or waited for.', heads, (lock) => [
        ...[lock.operation, lock.resource, lock.holder?.node ?? null],
        lock.holder && showSpan(now - lock.holder.since),
        lock.holder && showSpan(lock.holder.expiresAt - now),
        lock.waiterCount,
      ])
    })
}

function evictCommand(printer: Printer): CliCommand {
  return new CliCommand('evict')
    .description('end the turn of a lock’s holder as a failure, or remove a waiter from its wait queue')
    .argument('<operation>', 'the operation')
    .argument('<resource>', 'the resource')
    .option('--node <node>', 'the holder or waiter to remove (default: the holder)')
    .option('--request-id <id>', 'the id of its request (default: the node’s name)')
    .note(
      'The first waiter gets the lock. The evicted program is not stopped: its renewal and release get lease_lost, and stores',
      'that check the fencing token can refuse its writes.',
    )
    .examples('locks evict pull nginx', 'locks evict pull nginx --node machine-2 --json')
    .onBox((operation: string, resource: string, flags: Flags<'node' | 'requestId'>) => {
      const { node, requestId } = flags
      if (node === undefined && requestId !== undefined)
        throw invalidArgument('--request-id needs --node: it names one request of that node.')
      return (box) => evict(box, { operation, resource }, flags, printer)
    })
}

async function evict(
  { locks }: Box | RemoteBox,
  key: { readonly operation: string; readonly resource: string },
  { node, requestId, json }: Flags<'node' | 'requestId'>,
  printer: Printer,
): Promise<void> {
  const { operation, resource } = key
  const { holder } = await locks.inspect(key)
  if (node === undefined && holder === null)
    throw new SignalboxError(
      'not_found',
      `No node holds ${operation} ${resource}. Name a waiter with --node to remove it from the wait queue.`,
    )
  const evicted =
    node === undefined
      ? { node: holder!.node, requestId: holder!.requestId }
      : { node, requestId: requestId ?? node }
  await locks.evict({ ...key, ...evicted })
  const wasHolder = holder?.node === evicted.node && holder.requestId === evicted.requestId
  const answer = { ...key, ...evicted, wasHolder, evicted: true }
  const line = wasHolder
    ? `evicted ${evicted.node} from ${operation} ${resource}: its turn ended as a failure`
    : `removed ${evicted.node} from the wait queue of ${operation} ${resource}`
  printer.answer(json, answer, line)
}

/** The exit codes of `signalbox lock`, besides those of the command that it runs. */
export const lockExitCodes: Readonly<Record<'refused' | 'deadline' | 'lost', number>> = {
  /** With --no-wait: another node holds the lock. The command did not run. */
  refused: 75,
  /** The deadline passed before the lock was granted. The command did not run. */
  deadline: 124,
  /** The lock was lost while the command ran, so signalbox ended the command. */
  lost: 125,
}

type LockFlags = Flags<'deadline'> & { readonly node: string; readonly ttl: string; readonly wait: boolean }

interface LockEnd {
  readonly status: 'released' | 'refused' | 'timeout' | 'lost' | 'interrupted'
  readonly exitCode: number
  /** The fencing token; null: the command did not run. */
  readonly token: number | null
}

/**
 * `signalbox lock OPERATION RESOURCE -- command…`: waits for the lock, runs the command under it, and releases the lock
 * with the outcome of the command.
 */
export function lockCommand({ printer, endWith }: CommandContext): Command {
  const command = new CliCommand('lock')
    .argument('<operation>', 'the operation')
    .argument('<resource>', 'the resource')
    .argument('<command...>', 'the command and its arguments, after --')
    .option('--node <name>', 'the name of this node', hostname())
    .option('--ttl <span>', 'the lease of the lock; it is renewed while the command runs', '30s')
    .option('--no-wait', `do not wait: exit with ${lockExitCodes.refused} when the lock is busy`)
    .option('--deadline <span>', `the longest wait; then exit with ${lockExitCodes.deadline}`)
    .option('--url <url>', 'the server to use; SIGNALBOX_TOKEN holds its token')
    .option('--namespace <name>', 'the namespace of the lock (default: default, or the token’s)')
    .option('--json', 'print the outcome as one line of JSON, after the output of the command')
    .note(
      'The command sees the fencing token as SIGNALBOX_LOCK_TOKEN. Exit code 0 ends the turn as a success, any other as a failure.',
      `Exit codes: the command's own; ${lockExitCodes.refused} refused; ${lockExitCodes.deadline} the deadline passed; ${lockExitCodes.lost} the lock was lost.`,
    )
    .examples(
      'lock deploy eu-1 -- ./deploy.sh',
      'lock backup db --no-wait -- pg_dump -f db.sql shop',
      'lock pull app:1.2 --url http://127.0.0.1:7420 --deadline 5m -- docker pull app:1.2',
    )
    .action(async (operation: string, resource: string, words: readonly string[], flags: LockFlags) => {
      await using box = await openBox(command, flags, 'hold')
      const end = await runLocked(box.locks, operation, resource, words, flags, printer)
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
  const interruption = watchSignals()
  let held: Held
  try {
    const options = {
      node,
      signal: interruption.signal,
      // Without --no-wait, the server or the configuration decides.
      ...(wait ? {} : { wait }),
      ttlMs: spanOf('--ttl', ttl),
      deadlineMs: spanOf('--deadline', deadline) ?? null,
    }
    held = await locks.hold(operation, resource, options)
  } catch (error) {
    return endOf(error, printer)
  } finally {
    interruption.stop()
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

async function release(held: Held, exitCode: number, printer: Printer): Promise<boolean> {
  try {
    if (exitCode === 0) await held.release()
    else await held.release({ outcome: 'failure', error: `exit code ${exitCode}` })
    return true
  } catch (error) {
    printer.problem((error as Error).message, isSignalboxError(error) ? error.code : undefined)
    // Without an answer, the end of the lease releases the lock. The command ran in time.
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

/** The exit codes of `signalbox once`, besides those of the command that it runs. */
export const onceExitCodes: Readonly<Record<'running' | 'stuck' | 'lost', number>> = {
  /** Another process runs the key now. The command did not run. */
  running: 75,
  /** An earlier run has an unknown outcome; --at-most-once does not run the key again. */
  stuck: 76,
  /** The claim was lost while the command ran, so signalbox ended the command. */
  lost: 125,
}

type OnceFlags = Flags<never, 'atMostOnce'> & { readonly keep: string; readonly lease: string }

/** `signalbox once KEY -- command…`: runs the command unless it completed before on any machine. */
export function onceCommand({ printer, endWith }: CommandContext): Command {
  return new CliCommand('once')
    .argument('<key>', 'the key of the work')
    .argument('<command...>', 'the command and its arguments, after --')
    .option('--keep <span>', 'how long the key stays done', '24h')
    .option('--lease <span>', 'the lease of the claim; it is renewed while the command runs', '30s')
    .option('--at-most-once', 'do not run it again after a crash')
    .note(
      'Exit code 0 of the command marks the key as done; any other frees it. If the key is done already, the command does not run and the exit code is 0.',
      `Exit codes: the command's own; ${onceExitCodes.running} another process runs it now; ${onceExitCodes.stuck} it is stuck; ${onceExitCodes.lost} the claim was lost.`,
    )
    .examples(
      'once report-2026-11-15 -- ./report.sh',
      'once import:42 --keep 7d --url http://127.0.0.1:7420 -- ./import 42',
    )
    .onBox(
      (key: string, [program, ...args]: readonly string[], flags: OnceFlags) =>
        async (box) => {
          const mode = flags.atMostOnce ? 'at-most-once' : 'at-least-once'
          try {
            const answer = await box.once.run(
              key,
              async ({ signal }) => {
                const { exitCode, isLost, problem } = await runChild(program!, args, { lost: signal })
                if (problem !== undefined) printer.problem(problem)
                if (isLost || exitCode !== 0) throw new CommandEnded(isLost ? onceExitCodes.lost : exitCode)
                return null
              },
              { keepMs: spanOf('--keep', flags.keep), leaseMs: spanOf('--lease', flags.lease), mode },
            )
            if (flags.json)
              printer.json({ key, ran: answer.ran, status: answer.ran ? 'done' : answer.status })
            if (answer.ran) return
            if (!flags.json) printer.problem(describeRefusal(key, answer.status))
            if (answer.status !== 'done') endWith(onceExitCodes[answer.status])
          } catch (error) {
            if (error instanceof CommandEnded) return endWith(error.exitCode)
            if (!isSignalboxError(error, 'lease_lost')) throw error
            printer.problem(error.message, error.code)
            endWith(onceExitCodes.lost)
          }
        },
      'make',
    )
}

/** Thrown after the command failed, so that the key becomes free again. */
class CommandEnded extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super(`The command ended with ${exitCode}.`)
    this.exitCode = exitCode
  }
}

function describeRefusal(key: string, status: 'running' | 'done' | 'stuck'): string {
  if (status === 'done') return `${key} was done before; the command was not run`
  if (status === 'running') return `another process is running ${key}; the command was not run`
  return `${key} was started before and its outcome is unknown. Check whether it was done, then forget the key (POST /v1/once/forget)`
}
