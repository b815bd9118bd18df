import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { Database } from '../database.ts'
import { operation } from '../procedure.ts'
import { runRule } from './run-rule.ts'
import type { WaitQueueName } from './wait-queue-key.ts'
import { createQueueReads } from './wait-queue-reads.ts'
import { commitQueues, openQueues } from './wait-queue-rows.ts'
import { sweepNamespace } from './wait-queue-sweep.ts'
import { shareTurns, type WaitQueueCall } from './wait-queue-turns.ts'

/**
 * Wait queues on Postgres and MariaDB. A step is one transaction:
 *
 *     BEGIN, lock the wait queue, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The wait queue and the clock are read after its key was locked. The counter of tokens comes last, because all grants of its
 * shard wait for each other from there to the commit. Several wait queues, whose operations exclude each other, are locked in
 * one order and in one trip. SQLite has one writer and takes its steps inside a group commit (sqlite/locks).
 *
 * `isLost`: whether the connection was lost, or gave no answer in time.
 */
export function createLockStore(
  database: Database,
  namespace: string,
  isLost: (error: unknown) => boolean,
): LockStore {
  const run = shareTurns(namespace, perform)

  async function perform(
    names: readonly WaitQueueName[],
    calls: readonly WaitQueueCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    for (let round = 0; ; round++) {
      const progress = { isCommitting: false }
      try {
        return await database.run(takeSteps, [names, calls, progress], { deadline })
      } catch (error) {
        if (progress.isCommitting && isLost(error)) throw commitUnknown(error)
        // Other processes have the wait queue.
        if (!isSignalboxError(error, 'store_busy') || performance.now() >= deadline) throw error
      }
      await sleep(Math.random() * Math.min(100, 5 * 2 ** round))
    }
  }

  return {
    ...ruledLocks(run),
    ...createQueueReads(database, namespace),
    sweep: (limit, times) => sweepNamespace({ database, namespace, run }, limit, times),
  }
}

/** Runs rules one after the other; each sees what those before it did. They are made anew for every try. */
const takeSteps = operation({
  name: 'take a step on a lock',
  lane: 'waiting',
  mayUndo: true,
  *procedure(
    names: readonly WaitQueueName[],
    calls: readonly WaitQueueCall[],
    progress: { isCommitting: boolean },
  ) {
    progress.isCommitting = false
    const buffers = yield* openQueues(names)
    const answers: unknown[] = []
    for (const { operation, rule } of calls)
      answers.push(yield* runRule(rule(), operation, (other) => buffers.get(other)!))
    progress.isCommitting = true
    yield* commitQueues(names, buffers)
    return answers as readonly unknown[]
  },
})

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to the database was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
