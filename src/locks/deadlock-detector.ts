import { describe } from './decode-lock.ts'
import type { LockKey, WaitingHolder } from './lock-store.ts'
import { wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import { excludedBy, type LockTimes } from './rules/index.ts'
import { type Blocking, findVictims, nameOfQueue } from './wait-graph.ts'

/**
 * Looks for deadlocks where one may have come about, and ends the youngest wait of each.
 *
 * A step closes a circle: a requester joins a wait queue, or a waiter is granted a lock while it waits elsewhere. Each such
 * step marks its wait queue as a suspect. The detector asks only for suspects whether the holder waits, and for whom.
 * Waiters ask for their position all the time, which marks their wait queues again, even if the first process is gone.
 * A wait queue whose holder waits nowhere is checked once.
 */
export interface DeadlockDetector {
  /** Marks a wait queue that probably has waiters. */
  suspect(key: LockKey): void
  /** Looks, unless it did so a moment ago or nothing was noted. */
  look(): Promise<void>
}

const pauseMs = 400
/** How many noted wait queues are begun with at once. */
const batch = 200
/** More than that are not noted: they come again. */
const mostNoted = 10_000
/** Circles of more are not followed to their end. */
const mostRounds = 32
const maxWaitingHolders = 2_000

export function createDeadlockDetector({ store, notifier }: LocksParts, times: LockTimes): DeadlockDetector {
  const { conflicts = [] } = times
  const blocking: Blocking = ({ operation, resource }) =>
    [operation, ...excludedBy(conflicts, operation)].map((one) => ({ operation: one, resource }))
  const noted = new Map<string, LockKey>()
  let lookedAt = Number.NEGATIVE_INFINITY

  /** All waiting holders that can be reached from these wait queues. */
  async function gather(keys: readonly LockKey[]): Promise<readonly WaitingHolder[]> {
    const holders: WaitingHolder[] = []
    const seen = new Set<string>()
    const unseen = (more: readonly LockKey[]) =>
      more.flatMap(blocking).filter((key) => {
        const name = nameOfQueue(key)
        return !seen.has(name) && seen.add(name)
      })
    let next = unseen(keys)
    for (
      let round = 0;
      next.length > 0 && round < mostRounds && holders.length < maxWaitingHolders;
      round++
    ) {
      const found = await store.findWaitingHolders(next)
      holders.push(...found)
      next = unseen(found.map(({ waitsFor }) => waitsFor))
    }
    return holders
  }

  async function end({ who, waitsFor, seq }: WaitingHolder): Promise<void> {
    const value = JSON.stringify({
      code: 'deadlock',
      message: `Deadlock: ${who.node} waits for ${describe(waitsFor)}, whose holder waits for a lock that ${who.node} holds. Its wait was the youngest, so it was ended.`,
    })
    wakeForStep(notifier, waitsFor, await store.fail(waitsFor, { ...who, seq }, value, times))
  }

  return {
    suspect(key) {
      if (noted.size < mostNoted) noted.set(nameOfQueue(key), key)
    },

    async look() {
      if (noted.size === 0 || performance.now() - lookedAt < pauseMs) return
      lookedAt = performance.now()
      const begun = [...noted].slice(0, batch)
      for (const [name] of begun) noted.delete(name)
      const keys = begun.map(([, key]) => key)
      const first = await gather(keys)
      if (findVictims(first, blocking).length === 0) return
      // The rounds saw different moments. What is there before and after was there all the time between.
      const again = new Set((await gather(keys)).map(nameOfWait))
      const lasting = first.filter((holder) => again.has(nameOfWait(holder)))
      for (const victim of findVictims(lasting, blocking)) await end(victim)
    },
  }
}

function nameOfWait({ who, holds, token, waitsFor, seq }: WaitingHolder): string {
  return JSON.stringify([who.node, who.requestId, nameOfQueue(holds), token, nameOfQueue(waitsFor), seq])
}
