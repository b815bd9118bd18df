import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import type { Connections, Runner, Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'

/**
 * Runs statements on one connection, inside a transaction that whoever made this began and will end. Nothing is tried
 * again here: a failure ends the transaction, and it is done over as a whole. What may fail has a savepoint.
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

  attempt<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#next(async () => {
      // All three go out together; behind a statement that failed the release does nothing.
      this.#send(savepoint)
      const sent = this.run<Row>(statement, values)
      this.#send(release)
      try {
        return await sent
      } catch (error) {
        await this.#undo()
        throw error
      }
    })
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

  useBehind<Result>(_who: string, work: (client: PoolClient) => Promise<Result>): Promise<Result> {
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

  atOnceWaiting<Result>(_who: string, send: (client: PoolClient) => Promise<Result>): Promise<Result> {
    return this.allOrNothing(send, () => true)
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

  sendForArrays<Row extends readonly unknown[]>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly Row[]> {
    return this.#connections.sendForArrays<Row>(client, statement, values)
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
