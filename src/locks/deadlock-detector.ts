import { describe } from './decode-lock.ts'
import type { LockKey, WaitingHolder } from './lock-store.ts'
import { wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import { excludedBy, type LockTimes } from './rules/index.ts'
import { type Blocking, findVictims, nameOfQueue } from './wait-graph.ts'

/**
 * Looks for deadlocks where one may have come about, and ends the youngest wait of each.
 *
 * A circle is closed by a step: somebody joins a wait queue, or a wait queue is handed to somebody who waits elsewhere. So whoever
 * takes such a step notes the wait queue, and only from noted wait queues is it asked whether the holder waits, and for whom. Those
 * who wait ask again all the time, which notes their wait queues again: also when the process that noted them first is gone.
 * Wait queues whose holder waits nowhere are looked at once and no further.
 */
export interface DeadlockDetector {
  /** Somebody waits in this wait queue, as far as is known. */
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
      message: `${who.node} waits for ${describe(waitsFor)} and those it waits for wait for what it holds; as the youngest wait it was ended.`,
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
