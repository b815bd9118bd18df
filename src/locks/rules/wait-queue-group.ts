import type { OpenWaitQueue } from './open-wait-queue.ts'
import type { Conflicts, HolderView, Notified, Rule } from './rule.ts'
import type { Waiter } from './wait-queue.ts'

/**
 * The wait queues of one resource whose operations exclude each other. They share one order of arrival: no requester is
 * granted while an excluding operation is held or has an earlier waiter. When one of them changes, the same step makes all
 * grants that became possible in any of them.
 */
export class WaitQueueGroup {
  readonly #conflicts: Conflicts
  /** The operation of the rule. Questions about its rows go out without the prefix `of`. */
  readonly #own: string
  readonly #queues: ReadonlyMap<string, OpenWaitQueue>

  constructor(conflicts: Conflicts, own: string, queues: ReadonlyMap<string, OpenWaitQueue>) {
    this.#conflicts = conflicts
    this.#own = own
    this.#queues = queues
  }

  /** Ends expired holders in all wait queues, and makes all possible grants in order of arrival. */
  *settle(): Rule<void> {
    const heads: { readonly operation: string; readonly queue: OpenWaitQueue; readonly head: Waiter }[] = []
    for (const [operation, queue] of this.#queues) yield* this.#at(operation, queue.lapseIfOver())
    for (const [operation, queue] of this.#queues) {
      if (queue.isTaken) continue
      const head = yield* this.#at(operation, queue.firstLive())
      if (head) heads.push({ operation, queue, head })
    }
    heads.sort((a, b) => a.head.seq - b.head.seq)
    // A waiter that stays blocks later waiters of the operations that exclude its own.
    const waiting = new Set<string>()
    for (const { operation, queue, head } of heads) {
      const isKept = this.#excluded(operation).some(
        (other) => waiting.has(other) || this.#queue(other).isTaken,
      )
      if (isKept) waiting.add(operation)
      else yield* this.#at(operation, queue.grantWaiter(head))
    }
  }

  /** Whether a requester at this position may get the rule's operation at once. Call it after `settle`. */
  *isFreeFor(seq: number): Rule<boolean> {
    for (const operation of [this.#own, ...this.#excluded(this.#own)]) {
      const queue = this.#queue(operation)
      if (queue.isTaken) return false
      const head = yield* this.#at(operation, queue.first())
      if (head && head.seq < seq) return false
    }
    return true
  }

  /** The holder of an excluding operation, while the rule's operation has no holder. */
  otherHolder(): HolderView | null {
    for (const operation of this.#excluded(this.#own)) {
      const view = this.#queue(operation).holderView()
      if (view) return view
    }
    return null
  }

  /** The highest revision of all wait queues, so that their positions can be compared. */
  get lastRevision(): number {
    return Math.max(...[...this.#queues.values()].map(({ revision }) => revision))
  }

  /** Writes the changes of the other wait queues and answers whom to wake there. */
  *closeOthers(): Rule<readonly { readonly operation: string; readonly notified: Notified }[]> {
    const elsewhere: { readonly operation: string; readonly notified: Notified }[] = []
    for (const [operation, queue] of this.#queues) {
      if (operation === this.#own) continue
      yield* this.#at(operation, queue.save())
      const { notified } = queue
      if (notified.changed) elsewhere.push({ operation, notified })
    }
    return elsewhere
  }

  #queue(operation: string): OpenWaitQueue {
    return this.#queues.get(operation)!
  }

  #excluded(operation: string): readonly string[] {
    return excludedBy(this.#conflicts, operation)
  }

  /** Runs questions against the rows of the given operation. */
  *#at<Answer>(operation: string, asking: Rule<Answer>): Rule<Answer> {
    if (operation === this.#own) return yield* asking
    let step = asking.next()
    while (!step.done) step = asking.next(yield ['of', operation, step.value])
    return step.value
  }
}

/** The operations that this one excludes. */
export function excludedBy(conflicts: Conflicts, operation: string): readonly string[] {
  return knowledgeOf(conflicts).excluded.get(operation) ?? []
}

/**
 * All operations that are decided together with this one: itself, those that it excludes, those that they exclude, and so
 * on, sorted. Undefined when no pair names it.
 */
export function groupOf(conflicts: Conflicts | undefined, operation: string): readonly string[] | undefined {
  return conflicts && knowledgeOf(conflicts).groups.get(operation)
}

interface Knowledge {
  readonly excluded: ReadonlyMap<string, readonly string[]>
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** Computed once for each list of pairs. */
const known = new WeakMap<Conflicts, Knowledge>()

function knowledgeOf(conflicts: Conflicts): Knowledge {
  const before = known.get(conflicts)
  if (before) return before
  const excluded = new Map<string, Set<string>>()
  for (const [one, other] of conflicts) {
    if (!excluded.has(one)) excluded.set(one, new Set())
    if (!excluded.has(other)) excluded.set(other, new Set())
    excluded.get(one)!.add(other)
    excluded.get(other)!.add(one)
  }
  const groups = new Map<string, readonly string[]>()
  for (const operation of excluded.keys()) {
    if (groups.has(operation)) continue
    const members = new Set([operation])
    for (const member of members) for (const other of excluded.get(member)!) members.add(other)
    const group = [...members].sort()
    for (const member of group) groups.set(member, group)
  }
  const made = {
    excluded: new Map([...excluded].map(([operation, others]) => [operation, [...others]])),
    groups,
  }
  known.set(conflicts, made)
  return made
}
