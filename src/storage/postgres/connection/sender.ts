import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import type { Connections } from './connection.ts'
import type { Runner, Statement } from './statement.ts'

/**
 * Runs the store's statements: each alone on any connection (connection.ts), or all in one transaction on one connection
 * (`Pinned`). Code that uses a Sender does not know which.
 */
export interface Sender {
  /** Whether all of it is one transaction, which keeps the rows it locked until its end. */
  readonly isOneTransaction: boolean
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>>
  /** The same for renewals, and within that time. */
  beat<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    timeoutMs: number,
  ): Promise<QueryResult<Row>>
  /** One connection for several statements that follow each other. */
  use<Result>(work: (client: PoolClient) => Promise<Result>): Promise<Result>
  /** The same, all or nothing: what `work` did is taken back unless `isKept` says yes to its answer. */
  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /**
   * Like `allOrNothing`, for work that may wait for another transaction's locks: only calls that wait too share its
   * connections. Work that has sent all its statements, and whose success is final, may `keep` it before the answers.
   */
  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /** Sends a statement on such a connection, without waiting for those before it. */
  send<Row extends QueryResultRow>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<QueryResult<Row>>
  /** The same, with rows as arrays of text. */
  sendForTexts(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly (readonly (string | null)[])[]>
  /** Notes an effect once what was written before it is committed: for what this process remembers. */
  onCommit(effect: () => void): void
}

/**
 * Runs statements on one connection, inside a transaction that its creator began and will end. It retries nothing: a
 * failure ends the transaction, and the creator repeats all of it. A statement that may fail has a savepoint.
 */
export class Pinned implements Sender {
  readonly isOneTransaction = true
  readonly #connections: Connections
  readonly #client: PoolClient
  readonly #effects: (() => void)[] = []
  /** The end of the last part that has a savepoint: such parts follow each other, and one's undoing meets no other. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(connections: Connections, client: PoolClient) {
    this.#connections = connections
    this.#client = client
  }

  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#connections.send<Row>(this.#client, statement, values)
  }

  beat<Row extends QueryResultRow>(
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

  /** Nothing is to be gained here by keeping it early. */
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

  /** Not waited for: its failure shows in the statement after it. */
  #send(text: string): void {
    this.#client.query(text).catch(() => undefined)
  }

  /** What cannot be undone has broken the transaction, which its end will notice. */
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

  /** The transaction was committed: what waited for it is noted. */
  committed(): void {
    for (const effect of this.#effects.splice(0)) effect()
  }
}

const savepoint = 'SAVEPOINT signalbox_part'
const release = 'RELEASE SAVEPOINT signalbox_part'
