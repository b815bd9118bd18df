import { describe } from './decode-lock.ts'
import type { LockKey, WaitingHolder } from './lock-store.ts'
import { wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import type { Requester } from './rules/index.ts'
import { excludedBy, type LockTimes } from './rules/index.ts'

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

/**
 * Finds deadlocks among the given waits. A waiter waits for the holder of its wait queue. When that holder waits too, and
 * so on back to the first, none of them will ever have its turn.
 *
 *     A holds deploy ──waits for──▶ backup, held by B ──waits for──▶ deploy
 */

/** Which wait queues keep one who waits in this wait queue from its turn: the wait queue itself, and any that exclude it. */
export type Blocking = (key: LockKey) => readonly LockKey[]

/**
 * The waits that must end so that no circle is left: of each circle the youngest, which has the highest position. All
 * processes that see the same circle choose the same wait.
 */
export function findVictims(holders: readonly WaitingHolder[], blocking: Blocking): readonly WaitingHolder[] {
  const victims: WaitingHolder[] = []
  let rest = holders
  for (let circle = findCircle(rest, blocking); circle; circle = findCircle(rest, blocking)) {
    const victim = circle.reduce((youngest, holder) => (isYounger(holder, youngest) ? holder : youngest))
    victims.push(victim)
    rest = rest.filter((holder) => !isSameWait(holder, victim))
  }
  return victims
}

/** One circle, as the waits it is made of; undefined when there is none. */
function findCircle(
  holders: readonly WaitingHolder[],
  blocking: Blocking,
): readonly WaitingHolder[] | undefined {
  const holderOf = new Map(holders.map(({ holds, who }) => [nameOfQueue(holds), nameOfRequester(who)]))
  const waits = Map.groupBy(holders, ({ who }) => nameOfRequester(who))
  const isDone = new Set<string>()

  for (const start of waits.keys()) {
    if (isDone.has(start)) continue
    // The way from the start to where we are, and at each step what is still to be tried.
    const path: Step[] = [{ who: start, by: undefined, rest: stepsFrom(start) }]
    const indexes = new Map([[start, 0]])
    while (path.length > 0) {
      const next = path.at(-1)!.rest.pop()
      if (next === undefined) {
        const { who } = path.pop()!
        indexes.delete(who)
        isDone.add(who)
        continue
      }
      const index = indexes.get(next.who)
      if (index !== undefined) return [...path.slice(index + 1).map(({ by }) => by!), next.by]
      if (isDone.has(next.who)) continue
      indexes.set(next.who, path.length)
      path.push({ ...next, rest: stepsFrom(next.who) })
    }
  }
  return undefined

  function stepsFrom(who: string): { readonly who: string; readonly by: WaitingHolder }[] {
    return (waits.get(who) ?? []).flatMap((by) =>
      blocking(by.waitsFor).flatMap((key) => {
        const holder = holderOf.get(nameOfQueue(key))
        return holder === undefined ? [] : [{ who: holder, by }]
      }),
    )
  }
}

interface Step {
  readonly who: string
  /** The wait that led here. */
  readonly by: WaitingHolder | undefined
  readonly rest: { readonly who: string; readonly by: WaitingHolder }[]
}

function isYounger(a: WaitingHolder, b: WaitingHolder): boolean {
  if (a.seq !== b.seq) return a.seq > b.seq
  return nameOfQueue(a.waitsFor) + nameOfRequester(a.who) > nameOfQueue(b.waitsFor) + nameOfRequester(b.who)
}

function isSameWait(a: WaitingHolder, b: WaitingHolder): boolean {
  return (
    a.seq === b.seq &&
    nameOfQueue(a.waitsFor) === nameOfQueue(b.waitsFor) &&
    nameOfRequester(a.who) === nameOfRequester(b.who)
  )
}

/** No two wait queues have the same. */
export function nameOfQueue({ operation, resource }: LockKey): string {
  return `${operation.length}:${operation}${resource}`
}

function nameOfRequester({ node, requestId }: Requester): string {
  return `${node.length}:${node}${requestId}`
}
