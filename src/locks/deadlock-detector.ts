import { describe } from './decode-lock.ts'
import type { LockKey, WaitingHolder } from './lock-store.ts'
import { nameOfRequester, queueTopic, wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import { excludedBy, type LockTimes } from './rules/index.ts'

/**
 * Finds deadlocks and ends the youngest wait of each.
 *
 * Two steps can close a circle: a requester joins a wait queue, or a waiter gets a lock while it waits elsewhere. Each such
 * step marks its wait queue as a suspect, and the detector reads only suspects. Waiters keep asking for their position,
 * which marks their wait queues again, even if the first process is gone. A wait queue whose holder waits nowhere is
 * checked once.
 */
export interface DeadlockDetector {
  /** Marks a wait queue that probably has waiters. */
  suspect(key: LockKey): void
  /** Checks the suspects, at most every 400 ms. */
  look(): Promise<void>
}

const pauseMs = 400
/** How many suspects one check begins with. */
const batch = 200
/** The detector drops further suspects: their waiters mark them again. */
const maxSuspects = 10_000
/** The detector gives up on longer circles. */
const maxRounds = 32
const maxWaitingHolders = 2_000

export function createDeadlockDetector({ store, notifier }: LocksParts, times: LockTimes): DeadlockDetector {
  const { conflicts = [] } = times
  const blocking: Blocking = ({ operation, resource }) =>
    [operation, ...excludedBy(conflicts, operation)].map((one) => ({ operation: one, resource }))
  const suspects = new Map<string, LockKey>()
  let lookedAt = Number.NEGATIVE_INFINITY

  /** Finds all waiting holders that can be reached from these wait queues. */
  async function gather(keys: readonly LockKey[]): Promise<readonly WaitingHolder[]> {
    const holders: WaitingHolder[] = []
    const seen = new Set<string>()
    const unseen = (more: readonly LockKey[]) =>
      more.flatMap(blocking).filter((key) => {
        const name = queueTopic(key)
        return !seen.has(name) && seen.add(name)
      })
    let next = unseen(keys)
    for (let round = 0; next.length > 0 && round < maxRounds && holders.length < maxWaitingHolders; round++) {
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
      if (suspects.size < maxSuspects) suspects.set(queueTopic(key), key)
    },

    async look() {
      if (suspects.size === 0 || performance.now() - lookedAt < pauseMs) return
      lookedAt = performance.now()
      const checked = [...suspects].slice(0, batch)
      for (const [name] of checked) suspects.delete(name)
      const keys = checked.map(([, key]) => key)
      const first = await gather(keys)
      if (findVictims(first, blocking).length === 0) return
      // Each round reads a different moment. A wait that both readings find existed all the time between them.
      const again = new Set((await gather(keys)).map(nameOfWait))
      const lasting = first.filter((holder) => again.has(nameOfWait(holder)))
      for (const victim of findVictims(lasting, blocking)) await end(victim)
    },
  }
}

function nameOfWait({ who, holds, token, waitsFor, seq }: WaitingHolder): string {
  return JSON.stringify([who.node, who.requestId, queueTopic(holds), token, queueTopic(waitsFor), seq])
}

/**
 * Finds deadlocks among the given waits. A waiter waits for the holder of its wait queue. When a chain of such waits
 * returns to its beginning, none of its waiters can ever get the lock.
 *
 *     A holds deploy ──waits for──▶ backup, held by B ──waits for──▶ deploy
 */

/** The wait queues that can delay a waiter of this one: the wait queue itself, and those whose operations exclude it. */
export type Blocking = (key: LockKey) => readonly LockKey[]

/**
 * Chooses the waits that must end so that no circle is left: the youngest of each circle. Processes that see the same
 * circle choose the same wait.
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

/** Finds one circle and returns its waits. */
function findCircle(
  holders: readonly WaitingHolder[],
  blocking: Blocking,
): readonly WaitingHolder[] | undefined {
  const holderOf = new Map(holders.map(({ holds, who }) => [queueTopic(holds), nameOfRequester(who)]))
  const waits = Map.groupBy(holders, ({ who }) => nameOfRequester(who))
  const isDone = new Set<string>()

  for (const start of waits.keys()) {
    if (isDone.has(start)) continue
    // The path from the start, and the steps that each of its nodes has not tried yet.
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
        const holder = holderOf.get(queueTopic(key))
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
  return queueTopic(a.waitsFor) + nameOfRequester(a.who) > queueTopic(b.waitsFor) + nameOfRequester(b.who)
}

function isSameWait(a: WaitingHolder, b: WaitingHolder): boolean {
  return (
    a.seq === b.seq &&
    queueTopic(a.waitsFor) === queueTopic(b.waitsFor) &&
    nameOfRequester(a.who) === nameOfRequester(b.who)
  )
}
