import { Batcher } from '../../../core/batcher.ts'
import type { LockKey } from '../../../locks/index.ts'
import type { Rule } from '../../../locks/rules/index.ts'
import type { RunRule } from '../../ruled-locks.ts'
import { nameWaitQueue, type WaitQueueName } from './wait-queue-record.ts'

/**
 * Calls of this process on one wait queue take turns before they reach the database. Calls that arrive while a
 * transaction is in progress share the next one: one lock, one commit, in the order of arrival. So a busy wait queue
 * occupies one connection instead of all, and a transaction serves more calls the busier it is.
 *
 * The wait queues of operations that exclude each other on one resource count as one: their calls take turns together.
 *
 * Turns of different wait queues also share transactions when several arrive at once or a few are in progress. A single
 * turn runs alone, and so does a turn that must wait for another process.
 */
export function shareTurns(namespace: string, perform: Perform, performTogether?: PerformTogether): RunRule {
  const turns = new Map<string, PendingCall[]>()
  let aloneCount = 0
  const together =
    performTogether &&
    new Batcher<Turn, readonly unknown[] | undefined>({
      maxItems: maxTogether,
      maxInFlight: sharedInFlight,
      run: async (some) => (some.length === 1 && aloneCount < maxAlone ? [undefined] : performTogether(some)),
    })

  async function take(
    queues: readonly [WaitQueueName, ...WaitQueueName[]],
    calls: readonly WaitQueueCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    const [queue, ...others] = queues
    if (together && others.length === 0) {
      const shared = await together.add({ queue, calls, deadline })
      if (shared !== undefined) return shared
    }
    aloneCount++
    return perform(queues, calls, deadline).finally(() => {
      aloneCount--
    })
  }

  async function work(
    queues: readonly [WaitQueueName, ...WaitQueueName[]],
    waiting: PendingCall[],
  ): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, maxTogether)
      try {
        const answers = await take(queues, batch, batch[0]!.deadline)
        batch.forEach(({ resolve }, index) => {
          resolve(answers[index])
        })
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    turns.delete(queues[0].queueKey)
  }

  return <Answer>(key: LockKey, rule: () => Rule<Answer>, group?: readonly string[]): Promise<Answer> => {
    const queues = nameQueues(namespace, key, group)
    const [{ queueKey }] = queues
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const call: PendingCall = {
      operation: key.operation,
      rule,
      resolve: resolve as (answer: unknown) => void,
      reject,
      deadline: performance.now() + callMs,
    }
    const waiting = turns.get(queueKey)
    if (waiting) {
      waiting.push(call)
    } else {
      const own = [call]
      turns.set(queueKey, own)
      void work(queues, own)
    }
    return promise
  }
}

/** The wait queues of a call. Calls on several lock them in this order, so that no two transactions deadlock. */
function nameQueues(
  namespace: string,
  key: LockKey,
  group: readonly string[] | undefined,
): readonly [WaitQueueName, ...WaitQueueName[]] {
  if (group === undefined) return [nameWaitQueue(namespace, key)]
  const [first, ...others] = group
    .map((operation) => nameWaitQueue(namespace, { ...key, operation }))
    .sort(byKey)
  return [first!, ...others]
}

function byKey(a: WaitQueueName, b: WaitQueueName): number {
  return a.queueKey < b.queueKey ? -1 : 1
}

/**
 * Runs the rules in order in one transaction, on one wait queue or on several, which it locks in the given order. It
 * retries after conflicts, with new rules, until the deadline (of `performance.now()`).
 */
export type Perform = (
  queues: readonly WaitQueueName[],
  calls: readonly WaitQueueCall[],
  deadline: number,
) => Promise<readonly unknown[]>

/**
 * Runs turns of different wait queues in one transaction. The result of a turn is undefined if the turn did not run:
 * another process holds its wait queue, or the transaction failed. Rejects if it is unknown whether the turns took
 * effect.
 */
export type PerformTogether = (turns: readonly Turn[]) => Promise<readonly (readonly unknown[] | undefined)[]>

/** Calls on one wait queue, which run in order. */
export interface Turn {
  readonly queue: WaitQueueName
  readonly calls: readonly WaitQueueCall[]
  readonly deadline: number
}

export interface WaitQueueCall {
  /** The operation whose wait queue the rule is for. */
  readonly operation: string
  readonly rule: () => Rule<unknown>
}

interface PendingCall extends WaitQueueCall {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
}

/** The time limit of a call, including its wait for earlier turns. */
const callMs = 10_000
/** The maximum number of calls and of turns in one transaction, so that none takes long. */
const maxTogether = 64
/** The number of shared transactions in flight: while one commits, the next can be prepared. */
const sharedInFlight = 2
/** The maximum number of turns that run alone at once. Turns that arrive meanwhile run together. */
const maxAlone = 4
