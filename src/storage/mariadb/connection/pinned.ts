import { begin, type Call, type Calls, commit, type Statement } from './calls.ts'
import { lockedByOthers } from './failures.ts'

/**
 * Runs bodies on one connection, inside a transaction that its creator began and will end; the bodies' BEGIN and COMMIT
 * are left out. It retries nothing: a conflict ends the transaction, and the creator repeats all of it.
 */
export class PinnedCalls implements Calls {
  readonly isOne = true
  readonly #call: Call
  readonly #effects: (() => void)[] = []

  constructor(call: Call) {
    this.#call = {
      deadline: call.deadline,
      rows: (sql, values) => call.rows(sql, values),
      packet: (statements) => call.packet(statements.map(withoutEnds)),
    }
  }

  /** The creator of the transaction has checked that. */
  requireOpen(): void {}

  run<Answer>(_doing: string, body: (call: Call) => Promise<Answer>): Promise<Answer> {
    return body(this.#call)
  }

  /**
   * A few looks one after the other, for what takes several steps. Waiting longer for others would keep our own rows
   * locked meanwhile.
   */
  async until<Answer>(
    doing: string,
    look: (deadline: number) => Promise<Answer | undefined>,
  ): Promise<Answer> {
    for (let looks = 0; looks < 10; looks++) {
      const answer = await look(this.#call.deadline)
      if (answer !== undefined) return answer
    }
    throw lockedByOthers(doing)
  }

  onCommit(effect: () => void): void {
    this.#effects.push(effect)
  }

  /** The transaction was committed: what waited for it is noted. */
  committed(): void {
    for (const effect of this.#effects.splice(0)) effect()
  }
}

/** Something in its place, so that every answer keeps its own. */
const nothing: Statement = ['DO 0', []]

function withoutEnds(statement: Statement): Statement {
  return statement === begin || statement === commit ? nothing : statement
}
