import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import type { Connections } from './connection.ts'
import type { Runner, Statement } from './statement.ts'

/**
 * Runs the store's statements: each alone on any connection (connection.ts), or all in one transaction on one
 * connection (`Pinned`). Code that uses a Sender works with both.
 */
export interface Sender {
  /** Whether all statements are in one transaction, which keeps its row locks until its end. */
  readonly isOneTransaction: boolean
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>>
  /** Like `run`, for renewals, with a time-out. */
  runRenewal<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    timeoutMs: number,
  ): Promise<QueryResult<Row>>
  /** Lends one connection for several statements in order. */
  use<Result>(work: (client: PoolClient) => Promise<Result>): Promise<Result>
  /** Like `use`, all or nothing: rolls `work` back unless `isKept` accepts its answer. */
  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /**
   * Like `allOrNothing`, for work that may wait for locks of other transactions: it uses the connections of waiting
   * calls. After its last statement, work whose success is final may call `keep`, which sends COMMIT before the answers
   * arrive.
   */
  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /** Sends a statement on a lent connection, without waiting for earlier ones. */
  send<Row extends QueryResultRow>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<QueryResult<Row>>
  /** Like `send`, with rows as arrays of text. */
  sendForTexts(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly (readonly (string | null)[])[]>
  /** Calls `effect` when all earlier writes are committed. Used for the caches of this process. */
  onCommit(effect: () => void): void
}

/**
 * Runs statements on one connection, inside a transaction that its creator begins and ends. It retries nothing: a
 * failure ends the transaction, and the creator repeats all of it. A statement that may fail has a savepoint.
 */
export class Pinned implements Sender {
  readonly isOneTransaction = true
  readonly #connections: Connections
  readonly #client: PoolClient
  readonly #effects: (() => void)[] = []
  /**
   * The end of the last part with a savepoint. Such parts run one after the other, so a rollback affects only one part.
   */
  #last: Promise<unknown> = Promise.resolve()

  constructor(connections: Connections, client: PoolClient) {
    this.#connections = connections
    this.#client = client
  }

  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#connections.send<Row>(this.#client, statement, values)
  }

  runRenewal<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    timeoutMs: number,
  ): Promise<QueryResult<Row>> {
    return this.#connections.send<Row>(this.#client, statement, values, timeoutMs)
  }

  use<Result>(work: (client: PoolClient) => Promise<Result>): Promise<Result> {
    return work(this.#client)
  }

  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.#next(async () => {
      this.#send(savepoint)
      try {
        const result = await work(this.#client)
        if (isKept(result)) this.#send(release)
        else await this.#undo()
        return result
      } catch (error) {
        await this.#undo()
        throw error
      }
    })
  }

  /** `keep` does nothing: the creator commits. */
  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.allOrNothing((client) => work(client, () => undefined), isKept)
  }

  #next<Result>(part: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(part)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Does not wait: if the statement fails, the next one fails too. */
  #send(text: string): void {
    this.#client.query(text).catch(() => undefined)
  }

  /** Rolls back to the savepoint. If that fails, the transaction is broken, and its end reports that. */
  async #undo(): Promise<void> {
    await this.#client.query(`ROLLBACK TO ${savepoint}; ${release}`).catch(() => undefined)
  }

  send<Row extends QueryResultRow>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<QueryResult<Row>> {
    return this.#connections.send<Row>(client, statement, values)
  }

  sendForTexts(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly (readonly (string | null)[])[]> {
    return this.#connections.sendForTexts(client, statement, values)
  }

  onCommit(effect: () => void): void {
    this.#effects.push(effect)
  }

  /** The transaction was committed: runs the effects of `onCommit`. */
  committed(): void {
    for (const effect of this.#effects.splice(0)) effect()
  }
}

const savepoint = 'SAVEPOINT signalbox_part'
const release = 'RELEASE SAVEPOINT signalbox_part'
