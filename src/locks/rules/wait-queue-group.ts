import type { OpenWaitQueue } from './open-wait-queue.ts'
import type { Ask, Conflicts, Given, HolderView, Notified } from './rule.ts'
import type { Waiter } from './wait-queue.ts'

/**
 * The wait queues of one resource whose operations exclude each other, under one rule. They share one order of arrival: a
 * requester is not granted while an excluding operation is held, or has an earlier waiter. When one of them changes, the
 * same step makes all grants that became possible in any of them.
 */
export class WaitQueueGroup {
  readonly #conflicts: Conflicts
  /** The operation that the rule is about; it asks for that one's rows without saying so. */
  readonly #own: string
  readonly #queues: ReadonlyMap<string, OpenWaitQueue>

  constructor(conflicts: Conflicts, own: string, queues: ReadonlyMap<string, OpenWaitQueue>) {
    this.#conflicts = conflicts
    this.#own = own
    this.#queues = queues
  }

  /** Ends what has run out in any wait queue, and grants what can be, in order of arrival. */
  *settle(): Generator<Ask, void, Given> {
    const heads: { readonly operation: string; readonly queue: OpenWaitQueue; readonly head: Waiter }[] = []
    for (const [operation, queue] of this.#queues) yield* this.#at(operation, queue.lapseIfOver())
    for (const [operation, queue] of this.#queues) {
      if (queue.isTaken) continue
      const head = yield* this.#at(operation, queue.firstLive())
      if (head) heads.push({ operation, queue, head })
    }
    heads.sort((a, b) => a.head.seq - b.head.seq)
    // Earlier waiters that go on waiting come before later ones.
    const waiting = new Set<string>()
    for (const { operation, queue, head } of heads) {
      const isKept = this.#excluded(operation).some(
        (other) => waiting.has(other) || this.#queue(other).isTaken,
      )
      if (isKept) waiting.add(operation)
      else yield* this.#at(operation, queue.grantWaiter(head))
    }
  }

  /** Whether one who asks for the rule's operation may have it at once, at this position. After `settle`. */
  *isFreeFor(seq: number): Generator<Ask, boolean, Given> {
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

  /** The highest there is in any of the wait queues, so that positions can be compared between them. */
  get lastRevision(): number {
    return Math.max(...[...this.#queues.values()].map(({ revision }) => revision))
  }

  /** Writes the changes of the other wait queues, and answers whom to notify there. */
  *closeOthers(): Generator<
    Ask,
    readonly { readonly operation: string; readonly notified: Notified }[],
    Given
  > {
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

  /** Asks for the rows of another wait queue than the rule's own. */
  *#at<Answer>(operation: string, asking: Generator<Ask, Answer, Given>): Generator<Ask, Answer, Given> {
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
 * All operations whose wait queues are judged together: those that this one excludes, those that they exclude, and so on, in
 * one order and with itself. Undefined when no rule names it.
 */
export function groupOf(conflicts: Conflicts | undefined, operation: string): readonly string[] | undefined {
  return conflicts && knowledgeOf(conflicts).groups.get(operation)
}

interface Knowledge {
  readonly excluded: ReadonlyMap<string, readonly string[]>
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** Worked out once for each list of rules. */
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
