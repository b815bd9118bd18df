import { Batcher } from '../../../core/batcher.ts'
import type { LockKey } from '../../../locks/index.ts'
import type { Rule } from '../../../locks/rules/index.ts'
import type { RunRule } from '../../ruled-locks.ts'
import { nameWaitQueue, type WaitQueueName } from './wait-queue-record.ts'

/**
 * Calls of this process on one wait queue take turns before they come to the database, and those that came while a transaction
 * was under way share the next: one lock, one commit, in the order in which they came. So a wait queue that everybody wants
 * occupies one connection and not all of them, and is the faster the more want it.
 *
 * Wait queues of a resource whose operations exclude each other are one in this: their calls take turns together.
 *
 * Turns of different wait queues share transactions, too, as soon as several come at once or a few are under way. A turn
 * that comes alone is taken alone, and so is one that has to wait for another process.
 */
export function shareTurns(namespace: string, perform: Perform, performTogether?: PerformTogether): RunRule {
  const turns = new Map<string, Waiting[]>()
  let aloneCount = 0
  const together =
    performTogether &&
    new Batcher<Turn, readonly unknown[] | undefined>({
      maxItems: mostTogether,
      maxInFlight: sharedInFlight,
      run: async (some) =>
        some.length === 1 && aloneCount < mostAlone ? [undefined] : performTogether(some),
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
    waiting: Waiting[],
  ): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, mostTogether)
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
    const call: Waiting = {
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

/** The wait queues of a call. All calls lock several in this order, so that no two wait for each other. */
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
 * Runs the rules one after the other in one transaction on a wait queue, or on several that it locks in the order given.
 * Conflicts are tried again, with rules made anew, until the deadline (of `performance.now()`).
 */
export type Perform = (
  queues: readonly WaitQueueName[],
  calls: readonly WaitQueueCall[],
  deadline: number,
) => Promise<readonly unknown[]>

/**
 * The same for turns of different wait queues, in one transaction. Undefined for a turn that was not taken: another process
 * has its wait queue, or the transaction failed. Rejects when it is not known whether they were taken.
 */
export type PerformTogether = (turns: readonly Turn[]) => Promise<readonly (readonly unknown[] | undefined)[]>

/** Steps on one wait queue, which are taken one after the other. */
export interface Turn {
  readonly queue: WaitQueueName
  readonly calls: readonly WaitQueueCall[]
  readonly deadline: number
}

export interface WaitQueueCall {
  /** Whose wait queue the rule is about. */
  readonly operation: string
  readonly rule: () => Rule<unknown>
}

interface Waiting extends WaitQueueCall {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
}

/** How long a call tries, including its wait behind others. */
const callMs = 10_000
/** What one transaction takes on, so that none is long. */
const mostTogether = 64
/** How many transactions take turns of several wait queues: while one commits, the next can be prepared. */
const sharedInFlight = 2
/** How many turns are taken alone at once; what comes meanwhile is taken together. */
const mostAlone = 4
