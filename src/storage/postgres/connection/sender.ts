import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import type { Runner, Statement } from './connection.ts'

/**
 * How the store's own statements are run: each by itself on any connection (connection.ts), or all of them in one
 * transaction on one connection (pinned.ts). What is written against this does not know which.
 */
export interface Sender {
  /** Whether all of it is one transaction, which keeps the rows it locked until its end. */
  readonly isOneTransaction: boolean
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>>
  /** The same where the caller can live with a failure: what was done before it stays. */
  attempt<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>>
  /** The same for renewals, and within that time. */
  beat<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    timeoutMs: number,
  ): Promise<QueryResult<Row>>
  /** One connection for several statements that follow each other. */
  use<Result>(work: (client: PoolClient) => Promise<Result>): Promise<Result>
  /**
   * The same, for one who may come again before the first is answered: what is sent then goes behind the first on its
   * connection. The database begins with it as soon as it has done the first, and not a trip later.
   */
  useBehind<Result>(who: string, work: (client: PoolClient) => Promise<Result>): Promise<Result>
  /** The same, all or nothing: what `work` did is taken back unless `isKept` says yes to its answer. */
  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /**
   * The same where it may have to wait for another's: it keeps nobody here from a connection but those who wait too. Work
   * that has sent all it will, and is sure that it is kept if it works, may `keep` it before the answers have come.
   */
  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result>
  /**
   * A transaction of which all is sent at once, kept if it works. One that is begun before the first of the same was
   * answered goes behind it on its connection.
   */
  atOnceWaiting<Result>(who: string, send: (client: PoolClient) => Promise<Result>): Promise<Result>
  /** Sends a statement on such a connection, without waiting for those before it. */
  send<Row extends QueryResultRow>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<QueryResult<Row>>
  /** The same, with rows as arrays. */
  sendForArrays<Row extends readonly unknown[]>(
    client: Runner,
    statement: Statement,
    values: unknown[],
  ): Promise<readonly Row[]>
  /** Notes an effect once what was written before it is committed: for what this process remembers. */
  onCommit(effect: () => void): void
}
