import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { WaitQueueName } from '../../sql/locks/wait-queue-key.ts'
import { runCalls, shareTurns, type WaitQueueCall } from '../../sql/locks/wait-queue-turns.ts'
import type { Call, Calls } from '../connection/calls.ts'
import { isLost } from '../connection/failures.ts'
import type { LockTables } from '../tables.ts'
import { findWaitingHolders, inspectQueue, listQueues } from './wait-queue-reads.ts'
import { commitQueues, MariadbWaitQueue, openQueues } from './wait-queue-rows.ts'
import { sweepNamespace } from './wait-queue-sweep.ts'

/** Where the wait queues of a namespace are. */
export interface MariadbLockParts {
  readonly namespace: string
  readonly tables: LockTables
  /** For looks, and for what never waits for a wait queue. */
  readonly calls: Calls
  /** For transactions on wait queues, on connections of their own. */
  readonly waitingCalls: Calls
  readonly packetBytes: number
}

/**
 * Wait queues on MariaDB. A step is one transaction:
 *
 *     START, lock the wait queue's row, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The wait queue and the clock are read after the row was locked. The counter of tokens comes last, because all grants of its
 * shard wait for each other from there to the commit. Several wait queues, whose operations exclude each other, are locked in
 * one order and in one trip.
 */
export function createMariadbLocks(parts: MariadbLockParts): LockStore {
  const { namespace, tables, calls: looks, waitingCalls, packetBytes } = parts

  const run = shareTurns(namespace, perform)

  async function perform(
    names: readonly WaitQueueName[],
    calls: readonly WaitQueueCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    const progress = { isCommitting: false }
    try {
      return await waitingCalls.run(
        'take a step on a lock',
        (call) =>
          transact(
            call,
            names.map((name) => new MariadbWaitQueue(call, tables, name, packetBytes)),
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
    inspect: (key, limit) => inspectQueue(looks, tables, namespace, key, limit),
    list: (query) => listQueues(looks, tables, namespace, query),
    findWaitingHolders: (keys) => findWaitingHolders(looks, tables, namespace, keys),
    sweep: (limit, times) => sweepNamespace(parts, limit, times, run),
  }
}

async function transact(
  call: Call,
  queues: readonly MariadbWaitQueue[],
  calls: readonly WaitQueueCall[],
  progress: { isCommitting: boolean },
): Promise<readonly unknown[]> {
  progress.isCommitting = false
  const buffers = await openQueues(call, queues)
  const answers = await runCalls(calls, buffers)
  progress.isCommitting = true
  await commitQueues(
    call,
    queues.map((queue) => [queue, buffers.get(queue.operation)!.lastWrites()]),
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
