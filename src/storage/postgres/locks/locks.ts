import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { WaitQueueName } from '../../sql/locks/wait-queue-key.ts'
import { runCalls, shareTurns, type WaitQueueCall } from '../../sql/locks/wait-queue-turns.ts'
import type { Connections } from '../connection/connection.ts'
import { isConflict, isConnectionLoss } from '../connection/failures.ts'
import { WaitQueueReads } from './wait-queue-reads.ts'
import { commitQueues, openQueues, PostgresWaitQueue } from './wait-queue-rows.ts'
import type { WaitQueueStatements } from './wait-queue-statements.ts'
import { WaitQueueSweep } from './wait-queue-sweep.ts'

/**
 * Wait queues on Postgres. A step is one transaction:
 *
 *     BEGIN, lock the wait queue, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The lock is an advisory one of the transaction, so that a wait queue need not have a row to be locked, and the wait queue and the
 * clock are read after it was got. The counter of tokens comes last, because all grants of its shard wait for each other
 * from there to the commit. Several wait queues, whose operations exclude each other, are locked in one order and in one trip.
 */
export function createPostgresLocks(
  connections: Connections,
  namespace: string,
  schema: string,
  statements: WaitQueueStatements,
): LockStore {
  const reads = new WaitQueueReads(connections, namespace, schema)
  const run = shareTurns(namespace, perform)
  const sweeping = new WaitQueueSweep(connections, namespace, schema, statements, run)

  async function perform(
    names: readonly WaitQueueName[],
    calls: readonly WaitQueueCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    for (let round = 0; ; round++) {
      const progress = { isCommitting: false }
      try {
        return await connections.useWaiting((client) =>
          transact(
            names.map((name) => new PostgresWaitQueue(connections, client, statements, name)),
            client,
            calls,
            progress,
          ),
        )
      } catch (error) {
        if (isLost(error) && progress.isCommitting) throw commitUnknown(error)
        const isAgain = isSignalboxError(error, 'store_busy') && isConflict(error.cause)
        if (!isAgain || performance.now() >= deadline) throw error
      }
      await sleep(Math.random() * Math.min(100, 5 * 2 ** round))
    }
  }

  return {
    ...ruledLocks(run),
    inspect: (key, limit) => reads.inspect(key, limit),
    list: (query) => reads.list(query),
    findWaitingHolders: (keys) => reads.findWaitingHolders(keys),
    sweep: (limit, times) => sweeping.sweep(limit, times),
  }
}

async function transact(
  queues: readonly PostgresWaitQueue[],
  client: PoolClient,
  calls: readonly WaitQueueCall[],
  progress: { isCommitting: boolean },
): Promise<readonly unknown[]> {
  progress.isCommitting = false
  try {
    const buffers = await openQueues(client, queues)
    const answers = await runCalls(calls, buffers)
    progress.isCommitting = true
    await commitQueues(
      client,
      queues.map((queue) => [queue, buffers.get(queue.operation)!.lastWrites()]),
    )
    return answers
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

function isLost(error: unknown): boolean {
  return isSignalboxError(error, 'store_unavailable') && isConnectionLoss(error.cause)
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to Postgres was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
