import type { DependencyStore, LockAsk, LockDependency } from './dependency-store.ts'

/**
 * How jobs use locks. A job waits in the wait queue under its own id, and each of its requests has a number. So a
 * repeated request after a crash finds the same position, and a lost grant is never mistaken for a later one.
 */
export interface JobLocks {
  /**
   * Requests the lock, or repeats the request. Returns the fence if granted, `waits` behind others, `over` if it can
   * never be granted.
   */
  ask(ask: LockAsk): Promise<{ readonly fence: number } | 'waits' | 'over'>
  /** Renews a grant. Returns false if the grant is lost. */
  renew(ask: LockAsk, fence: number): Promise<boolean>
  /** Releases the lock if the job still holds it. Returns the job that is next in the wait queue, if any. */
  release(ask: LockAsk, fence: number, outcome: 'success' | 'failure'): Promise<string | undefined>
  /** Leaves the wait queue, if the request is still in it. */
  leave(ask: LockAsk): Promise<void>
  /** Calls `heard` when the request may have been granted, until the returned function is called. */
  listen(ask: LockAsk, heard: () => void): () => void
}

/**
 * Tends jobs that request a lock or hold it. Only this code moves a lock for a job: it requests the lock while the job
 * waits, renews the grant while the job is ready or runs, and releases it when the job ended or waits for another
 * attempt. A step may be repeated or skipped: the next resolver continues from the stored state.
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
  /** This job should be tended after `inMs`. */
  onLater(jobId: string, inMs: number): void
}

/** How long a job counts as tended. A grant lasts 30 s and must be used within 10 s. */
export const tendMs = 2_000
export const tendPage = 200

/** The state of a tended job: it waits for its lock, holds it, or no longer needs it. */
export type Tended = 'waits' | 'held' | 'over'

export async function tendLock(parts: LockWorkParts, lock: LockDependency): Promise<Tended> {
  const { dependencies, locks } = parts
  const { jobId, fence, state } = lock
  switch (state) {
    case 'waiting':
      // A waiting job with a fence: an operator retried it, or a resolver stopped between two steps.
      if (fence !== null) return giveUp(parts, lock, fence)
      if (lock.dueInMs === 0) return askFor(parts, lock)
      parts.onLater(jobId, lock.dueInMs)
      return 'waits'
    case 'scheduled':
      return fence === null ? blockAgain(parts, lock) : giveUp(parts, lock, fence)
    case 'ready':
    case 'running': {
      // The worker died or handed the job back: the next attempt needs a new grant.
      if (fence !== null && lock.isTaken && state === 'ready') return giveUp(parts, lock, fence)
      if (fence !== null && (await locks.renew(lock, fence))) return 'held'
      // The worker of a running job notices the lost lock at its next renewal. A ready job waits again.
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
    // If another resolver unblocked the job with this grant, the job holds it.
    const [now] = await parts.dependencies.fences([jobId])
    if (now?.askNo === askNo && now.fence === fence) return 'held'
    // The job was cancelled or retried meanwhile: the next waiter gets the lock.
    await release(parts, lock, fence, 'failure')
    return 'waits'
  }
  parts.onReady(queue)
  return 'held'
}

/** Releases a grant that the job cannot use now, and makes the job request the lock again. */
async function giveUp(parts: LockWorkParts, lock: LockDependency, fence: number): Promise<Tended> {
  await release(parts, lock, fence, 'failure')
  return blockAgain(parts, lock)
}

async function blockAgain(
  { dependencies, locks, onLater }: LockWorkParts,
  lock: LockDependency,
): Promise<Tended> {
  const { jobId, askNo, fence, dueInMs } = lock
  // Conditional on the fence seen: another resolver may have stored a new grant meanwhile.
  const isBlockedAgain = await dependencies.blockAgain({ jobId, askNo, fence })
  // A request left in the wait queue would get the lock later, without a job that uses it.
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
