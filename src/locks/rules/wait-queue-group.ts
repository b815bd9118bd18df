import { type Conflicts, excludedBy } from './conflicts.ts'
import type { OpenLine } from './open-wait-queue.ts'
import type { Ask, Given, HolderView, Told } from './rule.ts'
import type { Waiter } from './wait-queue.ts'

/**
 * The lines of one resource whose operations exclude each other, in the hands of one rule. They have one order of
 * arrival between them: nobody is granted while an operation that excludes its own is held, or waited for by somebody
 * who came before. Whenever one of them changes, whatever has become possible in any is granted in the same step.
 */
export class LineGroup {
  readonly #conflicts: Conflicts
  /** The operation that the rule is about; it asks for that one's rows without saying so. */
  readonly #own: string
  readonly #lines: ReadonlyMap<string, OpenLine>

  constructor(conflicts: Conflicts, own: string, lines: ReadonlyMap<string, OpenLine>) {
    this.#conflicts = conflicts
    this.#own = own
    this.#lines = lines
  }

  /** Ends what has run out in any line, and grants what can be, in order of arrival. */
  *settle(): Generator<Ask, void, Given> {
    const heads: { readonly operation: string; readonly line: OpenLine; readonly head: Waiter }[] = []
    for (const [operation, line] of this.#lines) yield* this.#at(operation, line.lapseIfOver())
    for (const [operation, line] of this.#lines) {
      if (line.isTaken) continue
      const head = yield* this.#at(operation, line.firstLive())
      if (head) heads.push({ operation, line, head })
    }
    heads.sort((a, b) => a.head.seq - b.head.seq)
    // Those who go on waiting go before whoever came later.
    const waiting = new Set<string>()
    for (const { operation, line, head } of heads) {
      const isKept = this.#excluded(operation).some(
        (other) => waiting.has(other) || this.#line(other).isTaken,
      )
      if (isKept) waiting.add(operation)
      else yield* this.#at(operation, line.grantWaiter(head))
    }
  }

  /** Whether one who asks for the rule's operation may have it at once, at this place. After `settle`. */
  *isFreeFor(seq: number): Generator<Ask, boolean, Given> {
    for (const operation of [this.#own, ...this.#excluded(this.#own)]) {
      const line = this.#line(operation)
      if (line.isTaken) return false
      const head = yield* this.#at(operation, line.first())
      if (head && head.seq < seq) return false
    }
    return true
  }

  /** Somebody who keeps others from the rule's operation though nobody holds that. */
  otherHolder(): HolderView | null {
    for (const operation of this.#excluded(this.#own)) {
      const view = this.#line(operation).holderView()
      if (view) return view
    }
    return null
  }

  /** The highest there is in any of the lines, so that places can be compared between them. */
  get lastRevision(): number {
    return Math.max(...[...this.#lines.values()].map(({ revision }) => revision))
  }

  /** Writes what has changed in the other lines, and says who is to be told there. */
  *closeOthers(): Generator<Ask, readonly { readonly operation: string; readonly told: Told }[], Given> {
    const elsewhere: { readonly operation: string; readonly told: Told }[] = []
    for (const [operation, line] of this.#lines) {
      if (operation === this.#own) continue
      yield* this.#at(operation, line.save())
      const { told } = line
      if (told.changed) elsewhere.push({ operation, told })
    }
    return elsewhere
  }

  #line(operation: string): OpenLine {
    return this.#lines.get(operation)!
  }

  #excluded(operation: string): readonly string[] {
    return excludedBy(this.#conflicts, operation)
  }

  /** Asks for the rows of another line than the rule's own. */
  *#at<Answer>(operation: string, asking: Generator<Ask, Answer, Given>): Generator<Ask, Answer, Given> {
    if (operation === this.#own) return yield* asking
    let step = asking.next()
    while (!step.done) step = asking.next(yield ['of', operation, step.value])
    return step.value
  }
}
