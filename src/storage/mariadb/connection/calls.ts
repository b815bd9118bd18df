import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../../../core/errors.ts'
import { callMs } from './connection.ts'
import { isConflict, lockedByOthers, toStoreError } from './failures.ts'
import type { Link, Pool } from './pool.ts'

/**
 * Runs the store's statements: each body as one transaction (PooledCalls), or all bodies in one (PinnedCalls). Code
 * that uses Calls does not know which.
 */
export interface Calls {
  /** Whether all bodies are one transaction, which commits or fails as a whole. */
  readonly isOne: boolean
  /** Throws `closed` if the backend was closed. For calls on a caller's connection. */
  requireOpen(): void
  /** Runs `body` on a connection. `doing` completes "could not …" in messages. */
  run<Answer>(doing: string, body: (call: Call) => Promise<Answer>, deadline?: number): Promise<Answer>
  /** Calls `look` until it returns an answer. Throws `store_busy` after the deadline. */
  until<Answer>(doing: string, look: (deadline: number) => Promise<Answer | undefined>): Promise<Answer>
  /** Runs an effect on this process's memory after the preceding writes were committed. */
  onCommit(effect: () => void): void
}

/** One connection during one call. */
export interface Call {
  readonly deadline: number
  /** Runs one statement that returns rows. */
  rows<Row>(sql: string, values: readonly unknown[]): Promise<Row[]>
  /** Runs several statements in one packet and returns the result of each, in order. */
  packet(statements: readonly Statement[]): Promise<readonly unknown[]>
}

/**
 * Calls on the store's own connections. If the server gives a transaction up (deadlock, lock wait), they retry with
 * jitter until the call's deadline. A body is one transaction that commits in its last packet, so after a conflict
 * nothing is committed, and running it again is safe. A lost connection is not retried here, because the commit may
 * have succeeded.
 */
export class PooledCalls implements Calls {
  readonly isOne = false
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  requireOpen(): void {
    this.#pool.requireOpen()
  }

  async run<Answer>(
    doing: string,
    body: (call: Call) => Promise<Answer>,
    deadline: number = performance.now() + callMs,
  ): Promise<Answer> {
    for (let round = 0; ; round++) {
      let link: Link | undefined
      try {
        link = await this.#pool.acquire(deadline, doing)
        const call = new LinkCall(link, deadline)
        const answer = await body(call)
        this.#pool.release(link)
        return answer
      } catch (error) {
        if (link !== undefined) await this.#giveBack(link)
        if (!isConflict(error) || performance.now() >= deadline) throw toStoreError(error, doing)
      }
      await sleep(Math.random() * Math.min(100, 5 * 2 ** round))
    }
  }

  async #giveBack(link: Link): Promise<void> {
    try {
      if (!link.lost) await link.ask('ROLLBACK', [], performance.now() + 1_000)
      this.#pool.release(link)
    } catch {
      this.#pool.discard(link)
    }
  }

  /** With growing pauses. */
  async until<Answer>(
    doing: string,
    look: (deadline: number) => Promise<Answer | undefined>,
  ): Promise<Answer> {
    const deadline = performance.now() + callMs
    for (let round = 0; ; round++) {
      const answer = await look(deadline)
      if (answer !== undefined) return answer
      const pause = Math.min(200, 5 * 2 ** round) * (0.5 + Math.random())
      if (performance.now() + pause >= deadline) {
        throw new SignalboxError(
          'store_busy',
          `MariaDB could not ${doing} in time: the row is locked by another transaction.`,
        )
      }
      await sleep(pause)
    }
  }

  /** When a body returns, it has committed. */
  onCommit(effect: () => void): void {
    effect()
  }
}

class LinkCall implements Call {
  readonly #link: Link
  readonly deadline: number

  constructor(link: Link, deadline: number) {
    this.#link = link
    this.deadline = deadline
  }

  rows<Row>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#link.ask<Row[]>(sql, values, this.deadline)
  }

  async packet(statements: readonly Statement[]): Promise<readonly unknown[]> {
    const sql = statements.map(([text]) => text).join(';\n')
    const answer = await this.#link.ask<unknown>(
      sql,
      statements.flatMap(([, values]) => values),
      this.deadline,
    )
    return statements.length === 1 ? [answer] : (answer as unknown[])
  }
}

/** A constant text and its bound values. */
export type Statement = readonly [sql: string, values: readonly unknown[]]

export const begin: Statement = ['START TRANSACTION', []]
export const commit: Statement = ['COMMIT', []]

/** The number of rows that a statement wrote. */
export function rowCount(answer: unknown): number {
  return (answer as { affectedRows?: number }).affectedRows ?? 0
}

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

  /** The creator of the transaction has checked it. */
  requireOpen(): void {}

  run<Answer>(_doing: string, body: (call: Call) => Promise<Answer>): Promise<Answer> {
    return body(this.#call)
  }

  /**
   * Calls `look` only a few times. A longer wait for other transactions would keep this transaction's own rows locked.
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

  /** Runs the pending effects. The creator calls it after the commit. */
  committed(): void {
    for (const effect of this.#effects.splice(0)) effect()
  }
}

/** A placeholder, so that each answer keeps its index. */
const nothing: Statement = ['DO 0', []]

function withoutEnds(statement: Statement): Statement {
  return statement === begin || statement === commit ? nothing : statement
}
