import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { LineName } from '../../sql/wait-queue-key.ts'
import { type LineCall, runCalls, shareTurns } from '../../sql/wait-queue-turns.ts'
import type { Call, Calls } from '../connection/calls.ts'
import { isLost } from '../connection/failures.ts'
import type { LockTables } from '../tables.ts'
import { findWaitingHolders, inspectLine, listLines } from './wait-queue-reads.ts'
import { commitLines, MariadbLine, openLines } from './wait-queue-rows.ts'
import { sweepNamespace } from './wait-queue-sweep.ts'

/** Where the lines of a namespace are. */
export interface LockPlace {
  readonly namespace: string
  readonly tables: LockTables
  /** For looks, and for what never waits for a line. */
  readonly calls: Calls
  /** For transactions on lines, on connections of their own. */
  readonly lineCalls: Calls
  readonly packetBytes: number
}

/**
 * Lines on MariaDB. A step is one transaction:
 *
 *     START, lock the line's row, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The line and the clock are read after the row was locked. The counter of tokens comes last, because all grants of its
 * shard wait for each other from there to the commit. Several lines, whose operations exclude each other, are locked in
 * one order and in one trip.
 */
export function createMariadbLocks(place: LockPlace): LockStore {
  const { namespace, tables, calls: looks, lineCalls, packetBytes } = place

  const run = shareTurns(namespace, perform)

  async function perform(
    names: readonly LineName[],
    calls: readonly LineCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    const progress = { isCommitting: false }
    try {
      return await lineCalls.run(
        'take a step on a lock',
        (call) =>
          transact(
            call,
            names.map((name) => new MariadbLine(call, tables, name, packetBytes)),
            calls,
            progress,
          ),
        deadline,
      )
    } catch (error) {
      throw progress.isCommitting && isUnanswered(error) ? commitUnknown(error) : error
    }
  }

  return {
    ...ruledLocks(run),
    inspect: (key, limit) => inspectLine(looks, tables, namespace, key, limit),
    list: (query) => listLines(looks, tables, namespace, query),
    findWaitingHolders: (keys) => findWaitingHolders(looks, tables, namespace, keys),
    sweep: (limit, times) => sweepNamespace(place, limit, times, run),
  }
}

async function transact(
  call: Call,
  lines: readonly MariadbLine[],
  calls: readonly LineCall[],
  progress: { isCommitting: boolean },
): Promise<readonly unknown[]> {
  progress.isCommitting = false
  const books = await openLines(call, lines)
  const answers = await runCalls(calls, books)
  progress.isCommitting = true
  await commitLines(
    call,
    lines.map((line) => [line, books.get(line.operation)!.lastWrites()]),
  )
  return answers
}

/** Whether the connection was lost, or nothing was heard from it in time. */
function isUnanswered(error: unknown): boolean {
  if (!isSignalboxError(error, 'store_unavailable')) return false
  return error.cause === undefined || isLost(error.cause)
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to MariaDB was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
