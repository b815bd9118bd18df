import type { LockKey, WaitingHolder } from './lock-store.ts'
import type { Requester } from './rules/index.ts'

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
