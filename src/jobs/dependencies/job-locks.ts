import type { DependencyStore, LockDependency } from './dependency-store.ts'

/**
 * How jobs use locks. A job waits in the wait queue under its own id, and each of its requests has a number. So asking
 * again after a crash finds the same position, and a lost grant is never mistaken for a later one.
 */
export interface JobLocks {
  /**
   * Asks, or asks again: the fence if it is granted, `waits` while others are first, `over` if this request can never
   * be granted.
   */
  ask(ask: LockAsk): Promise<{ readonly fence: number } | 'waits' | 'over'>
  /** Renews a grant; false: it is lost. */
  renew(ask: LockAsk, fence: number): Promise<boolean>
  /** Releases the lock if the job still holds it. Returns the job that is next in the wait queue, if any. */
  release(ask: LockAsk, fence: number, outcome: 'success' | 'failure'): Promise<string | undefined>
  /** Leaves the wait queue, if the request is still in it. */
  leave(ask: LockAsk): Promise<void>
  /** Calls `heard` when the request may have been granted, until the returned function is called. */
  listen(ask: LockAsk, heard: () => void): () => void
}

/** One of a job's requests for its lock. */
export interface LockAsk {
  readonly operation: string
  readonly resource: string
  readonly jobId: string
  readonly askNo: number
}

/**
 * Tends jobs that request a lock or hold it. Only this code moves a lock on a job's behalf: it asks while the job
 * waits, renews the grant while the job is ready or runs, and releases it when the job ended or waits for another
 * attempt. Each step may be repeated or left undone: the resolver that tends the job next finds it as it is.
 *
 *     waiting ──ask, ask again──▶ granted: ready ──▶ running ──▶ ended: release, rest
 *        ▲                          └── lost ◀─────────┘└── back-off, ready again: release ──┐
 *        └── block again ───────────────┴───────────────────────────────────────────────────┘
 */
export interface LockWorkParts {
  readonly dependencies: DependencyStore
  readonly locks: JobLocks
  /** A job of this queue may be claimed now. */
  onReady(queue: string): void
  /** This job should be tended soon. */
  onNext(jobId: string): void
  /** This job should be tended in so long. */
  onLater(jobId: string, inMs: number): void
}

/** How long a job counts as tended. A grant lasts 30 s and must be used within 10 s. */
export const tendMs = 2_000
export const tendPage = 200

/** What is left to do for a job that was tended. */
export type Tended = 'waits' | 'held' | 'over'

export async function tendLock(parts: LockWorkParts, lock: LockDependency): Promise<Tended> {
  const { dependencies, locks } = parts
  const { jobId, fence, state } = lock
  switch (state) {
    case 'waiting':
      // A waiting job with a fence was put back by an operator, or between two of our steps.
      if (fence !== null) return giveUp(parts, lock, fence)
      if (lock.dueInMs === 0) return askFor(parts, lock)
      parts.onLater(jobId, lock.dueInMs)
      return 'waits'
    case 'scheduled':
      return fence === null ? blockAgain(parts, lock) : giveUp(parts, lock, fence)
    case 'ready':
    case 'running': {
      // Its worker died or handed it back: the next attempt needs a new grant.
      if (fence !== null && lock.isTaken && state === 'ready') return giveUp(parts, lock, fence)
      if (fence !== null && (await locks.renew(lock, fence))) return 'held'
      // A running job without its lock notices at its next renewal; a ready one waits again.
      if (fence === null && state === 'running') return 'held'
      return blockAgain(parts, lock)
    }
    default: {
      if (fence === null) await locks.leave(lock)
      else await release(parts, lock, fence, state === 'completed' ? 'success' : 'failure')
      await dependencies.rest([jobId])
      return 'over'
    }
  }
}

async function askFor(parts: LockWorkParts, lock: LockDependency): Promise<Tended> {
  const { jobId, askNo } = lock
  const answer = await parts.locks.ask(lock)
  if (answer === 'waits') return 'waits'
  if (answer === 'over') return blockAgain(parts, lock)
  const { fence } = answer
  const queue = await parts.dependencies.grant({ jobId, askNo, fence })
  if (queue === undefined) {
    // Another resolver may have unblocked the job with this grant: then the job holds it.
    const [now] = await parts.dependencies.fences([jobId])
    if (now?.askNo === askNo && now.fence === fence) return 'held'
    // The job was cancelled or retried meanwhile: the next waiter gets the lock.
    await release(parts, lock, fence, 'failure')
    return 'waits'
  }
  parts.onReady(queue)
  return 'held'
}

/** Releases a grant that the job cannot use now, and has the lock requested again. */
async function giveUp(parts: LockWorkParts, lock: LockDependency, fence: number): Promise<Tended> {
  await release(parts, lock, fence, 'failure')
  return blockAgain(parts, lock)
}

async function blockAgain(
  { dependencies, locks, onLater }: LockWorkParts,
  lock: LockDependency,
): Promise<Tended> {
  const { jobId, askNo, fence, dueInMs } = lock
  // Only if it is as we saw it: another resolver may have had it granted since.
  const isBlockedAgain = await dependencies.blockAgain({ jobId, askNo, fence })
  // A request left in the wait queue would be granted some day, and stay unused.
  if (isBlockedAgain && fence === null) await locks.leave(lock)
  onLater(jobId, dueInMs)
  return 'waits'
}

async function release(
  { locks, onNext }: LockWorkParts,
  lock: LockDependency,
  fence: number,
  outcome: 'success' | 'failure',
): Promise<void> {
  const next = await locks.release(lock, fence, outcome)
  if (next !== undefined) onNext(next)
}
