import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { Database } from '../database.ts'
import { operation, type Procedure } from '../procedure.ts'
import { type ProcedureRows, runRule, sideBySide } from './run-rule.ts'
import { createQueueReads } from './wait-queue-reads.ts'
import type { WaitQueueName } from './wait-queue-record.ts'
import { commitQueues, mintsIn, openQueues, tryOpenQueues } from './wait-queue-rows.ts'
import { sweepNamespace } from './wait-queue-sweep.ts'
import { shareTurns, type Turn, type WaitQueueCall } from './wait-queue-turns.ts'

/**
 * Wait queues on Postgres and MariaDB. A step is one transaction:
 *
 *     BEGIN, lock the wait queue, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The transaction locks the key of the wait queue before it reads the wait queue and the clock. It increments the token
 * counter last, because from there to the commit all grants of the shard wait for each other. Wait queues whose
 * operations exclude each other are locked in one order and in one round trip. Steps of many callers on many wait
 * queues share a transaction, which skips wait queues that it cannot lock at once. SQLite has one writer and runs its
 * steps inside a group commit (sqlite/locks).
 *
 * `isLost`: whether the connection was lost, or did not answer in time.
 */
export function createLockStore(
  database: Database,
  namespace: string,
  isLost: (error: unknown) => boolean,
): LockStore {
  const run = shareTurns(namespace, perform, performTogether)

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
        // Another process holds the wait queue.
        if (!isSignalboxError(error, 'store_busy') || performance.now() >= deadline) throw error
      }
      await sleep(Math.random() * Math.min(100, 5 * 2 ** round))
    }
  }

  async function performTogether(
    turns: readonly Turn[],
  ): Promise<readonly (readonly unknown[] | undefined)[]> {
    const progress = { isCommitting: false }
    try {
      return await database.run(takeTurns, [turns, progress], { deadline: turns[0]!.deadline })
    } catch (error) {
      if (progress.isCommitting && isLost(error)) throw commitUnknown(error)
      // The transaction did nothing. Each turn now runs alone and reports its own error.
      return turns.map(() => undefined)
    }
  }

  return {
    ...ruledLocks(run),
    ...createQueueReads(database, namespace),
    sweep: (limit, times) => sweepNamespace({ database, namespace, run }, limit, times),
  }
}

/** Whether the next step is the COMMIT. */
interface Progress {
  isCommitting: boolean
}

/** Runs rules on one wait queue, or on several that exclude each other. */
const takeSteps = operation({
  name: 'take a step on a lock',
  connectionGroup: 'waiting',
  mayUndo: true,
  *procedure(names: readonly WaitQueueName[], calls: readonly WaitQueueCall[], progress: Progress) {
    progress.isCommitting = false
    const queues = yield* openQueues(names)
    const buffers = new Map(queues.map(({ name, buffer }) => [name.operation, buffer]))
    const answers = yield* runRules(calls, (other) => buffers.get(other)!)
    progress.isCommitting = true
    yield* commitQueues(queues)
    return answers
  },
})

/** Runs the turns of many wait queues together, except those that another process holds now. */
const takeTurns = operation({
  name: 'take steps on locks',
  connectionGroup: 'waiting',
  mayUndo: true,
  *procedure(turns: readonly Turn[], progress: Progress) {
    progress.isCommitting = false
    const queues = yield* tryOpenQueues(turns.map(({ queue }) => queue))
    const buffers = new Map(queues.map(({ name, buffer }) => [name, buffer]))
    const taken = turns.filter(({ queue }) => buffers.has(queue))
    const answers = yield* sideBySide(
      taken.map(({ queue, calls }) => runRules(calls, () => buffers.get(queue)!)),
      mintsIn,
    )
    progress.isCommitting = true
    yield* commitQueues(queues)
    const answersOf = new Map(taken.map((turn, nr) => [turn, answers[nr]!]))
    return turns.map((turn) => answersOf.get(turn))
  },
})

/** Runs rules in order. Each rule sees the effects of the rules before it. Every try creates the rules again. */
function* runRules(
  calls: readonly WaitQueueCall[],
  rowsOf: (operation: string) => ProcedureRows,
): Procedure<readonly unknown[]> {
  const answers: unknown[] = []
  for (const { operation, rule } of calls) answers.push(yield* runRule(rule(), operation, rowsOf))
  return answers
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to the database was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
