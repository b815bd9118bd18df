import type { LocksClient } from '../../../src/http/client/index.ts'
import type { Emptied } from '../../live/emptied.ts'

export type Summary = Awaited<ReturnType<LocksClient['list']>>['items'][number] & Emptied

export const keyOfLock = ({ operation, resource }: Pick<Summary, 'operation' | 'resource'>): string =>
  JSON.stringify([operation, resource])

/** What a lock is when it has no holder and no waiters any more. */
export function emptyLock(lock: Summary): Summary {
  return { ...lock, holder: null, waiterCount: 0 }
}

/** A hold that is younger says nothing: locks are taken and released all the time, and the list should stand still. */
const longMs = 60_000

/** The locks that hold up most: the most waiters first, then the longest holds, then by name. Empty ones are last. */
export function worstLocksFirst(locks: readonly Summary[], now: number): readonly Summary[] {
  const heldMs = ({ holder }: Summary) => {
    const ms = holder === null ? 0 : now - holder.since
    return ms < longMs ? 0 : ms
  }
  const nameOf = ({ operation, resource }: Summary) => `${operation}\n${resource}`
  return locks.toSorted(
    (a, b) =>
      Number(a.emptiedAt !== undefined) - Number(b.emptiedAt !== undefined) ||
      b.waiterCount - a.waiterCount ||
      heldMs(b) - heldMs(a) ||
      (nameOf(a) < nameOf(b) ? -1 : 1),
  )
}
