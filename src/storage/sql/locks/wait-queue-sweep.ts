import type { LockKey } from '../../../locks/index.ts'
import {
  expire,
  type LockTimes,
  type Requester,
  type Ruled,
  runLater,
  sweep,
  type Told,
} from '../../../locks/rules/index.ts'
import type { RunRule } from '../../ruled-locks.ts'
import type { WaitQueueBuffer } from './wait-queue-buffer.ts'

/** A wait queue whose time has come, or the time of some who wait in it. */
export interface DueWaitQueue extends LockKey {
  /** Where they stand. */
  readonly seqs: readonly number[]
}

/** What sweeping a wait queue came to, for whoever it concerns. */
export interface SweptWaitQueue {
  readonly key: LockKey
  readonly told: Told
}

/** How many wait queues are swept side by side; each is a transaction of its own. */
const sweptTogether = 4

/**
 * Sweeps wait queues that are due, and then `forget`s what is over. What some of it did is told also when the rest failed: the
 * next sweep meets the same trouble again.
 */
export async function sweepQueues(
  due: readonly DueWaitQueue[],
  sweepOne: (queue: DueWaitQueue) => Promise<readonly SweptWaitQueue[]>,
  forget: () => Promise<void>,
): Promise<readonly SweptWaitQueue[]> {
  const swept: SweptWaitQueue[] = []
  const rest = [...due]
  let failure: { readonly error: unknown } | undefined
  const take = async () => {
    for (let queue = rest.shift(); queue !== undefined && !failure; queue = rest.shift()) {
      swept.push(...(await sweepOne(queue)))
    }
  }
  const attempt = (work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      failure ??= { error }
    })
  await Promise.all(Array.from({ length: sweptTogether }, () => attempt(take)))
  if (!failure) await attempt(forget)
  if (failure && swept.length === 0) throw failure.error
  return swept
}

/** Brings a locked wait queue to the present, and ends the waits of those among these whose time has come. */
export async function sweepBook(
  key: LockKey,
  buffer: WaitQueueBuffer,
  waiters: readonly Requester[],
  times: LockTimes,
): Promise<readonly SweptWaitQueue[]> {
  const changes: SweptWaitQueue[] = []
  if (buffer.isDue) changes.push(...tellings(key, await runLater(sweep(times), buffer)))
  for (const who of waiters) changes.push(...tellings(key, await runLater(expire(who, times), buffer)))
  return changes
}

/**
 * The same for a wait queue whose operation excludes others: each step is taken as any other is, on all of their wait queues, and
 * judged anew there.
 */
export async function sweepGroup(
  key: LockKey,
  group: readonly string[],
  waiters: readonly Requester[],
  times: LockTimes,
  run: RunRule,
): Promise<readonly SweptWaitQueue[]> {
  const steps = [
    run(key, () => sweep(times), group),
    ...waiters.map((who) => run(key, () => expire(who, times), group)),
  ]
  return (await Promise.all(steps)).flatMap((ruled) => tellings(key, ruled))
}

/** What a step changed, in its wait queue and in those that its operation excludes. */
export function tellings(
  { operation, resource }: LockKey,
  { told, elsewhere = [] }: Ruled<object>,
): readonly SweptWaitQueue[] {
  const all = [{ operation, told }, ...elsewhere]
  return all.flatMap((one) =>
    one.told.changed ? [{ key: { operation: one.operation, resource }, told: one.told }] : [],
  )
}
