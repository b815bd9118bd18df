import {
  type Client,
  type ClientConfig,
  Pool,
  type PoolClient,
  type QueryResult,
  type QueryResultRow,
} from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import type { Meter, Ticket } from '../../../core/meter.ts'
import { PoolMeter } from '../../pool-meter.ts'
import { Borrowed, type MeteredPool } from './borrowed.ts'
import { inOnePacket } from './driver.ts'
import { sqlState, toStoreError } from './failures.ts'
import { Lender } from './lender.ts'
import { PreparedStatements, StatementNames } from './prepared.ts'
import type { Sender } from './sender.ts'
import { plannerSettings, type Target } from './target.ts'

const lockMs = 5_000
const statementMs = 20_000
const answerMs = 25_000
const closeMs = 5_000

/** What a statement of the store's own is: its text, and a name to be prepared under. */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** Anything that runs statements in order and, being pipelined, takes the next before the last has answered. */
export type Runner = Pick<Client, 'query'>

/**
 * The connections of one store, in four groups, so that none can starve another: `core` for the store's own short
 * statements, `heartbeat` for renewals alone, `lines` for transactions on wait queues of locks, which may wait for each other,
 * and `handlers` for transactions that a user's work holds open.
 *
 * Every wait has a deadline. The server's own (lock and statement time-outs) come first and say why; the client's
 * stands behind them, for a server that does not answer at all. The group `handlers` has none of the server's: how
 * long a user's statement may take is the user's business, and transact.ts bounds the rest.
 */
export class Connections implements Sender {
  readonly isOneTransaction = false
  readonly #core: MeteredPool
  readonly #heartbeat: MeteredPool
  readonly #waiting: MeteredPool
  readonly #handlers: MeteredPool
  readonly #lent = new WeakMap<PoolClient, Ticket>()
  /** Connections on which another of the same may send something behind what is under way. */
  readonly #shared = new Map<string, Borrowed>()
  readonly #lender: Lender
  readonly target: Target
  /** Off once a pooler was found that does not keep prepared statements. */
  #prepared = true
  readonly #preparedOn = new WeakMap<PoolClient, PreparedStatements>()
  /** Of the statements in handlers' transactions. */
  readonly statementNames: StatementNames = new StatementNames()
  #closed: Promise<void> | undefined
  /** Calls under way, and who waits for the last of them. */
  #active = 0
  #onIdle: (() => void) | undefined

  constructor(target: Target, takesOptions: boolean, meter?: Meter) {
    this.target = target
    const bounded = {
      ...target.config,
      query_timeout: answerMs,
      ...(takesOptions
        ? {
            options: `${plannerSettings} -c lock_timeout=${lockMs} -c statement_timeout=${statementMs}`,
          }
        : {}),
    }
    const metered = (name: string, config: ClientConfig, size: number): MeteredPool => ({
      pool: createPool(config, size),
      meter: new PoolMeter(meter, `postgres.${name}`, size),
    })
    this.#core = metered('core', bounded, 6)
    this.#heartbeat = metered('heartbeat', bounded, 2)
    this.#waiting = metered('lines', bounded, 6)
    this.#handlers = metered('handlers', target.config, target.poolSize)
    this.#lender = new Lender(this.#handlers.pool)
  }

  get closed(): boolean {
    return this.#closed !== undefined
  }

  /** Runs one statement of the store's own, again when the database gave it up for another's sake. */
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#within(this.#core, (client) => this.send<Row>(client, statement, values), statement.name)
  }

  /** By itself every statement is a transaction of its own, so a failure harms no other. */
  attempt<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.run<Row>(statement, values)
  }

  /**
   * The same on connections that nothing but renewals uses, and within a third of the lease: one that does not answer is
   * broken and another tried, while there is still a lease to be kept. Renewals begin at a third of it, so two tries fit in
   * the rest; more would be shorter than a commit takes on a slow disk, and none of them would be seen to its end.
   */
  beat<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    leaseMs: number,
  ): Promise<QueryResult<Row>> {
    const timeoutMs = Math.max(500, Math.floor(leaseMs / 3))
    return this.#within(this.#heartbeat, (client) => this.send<Row>(client, statement, values, timeoutMs))
  }

  /** Lends a connection for several statements; `work` is done over when the database gave it up. */
  use<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#core, work, doing)
  }

  useBehind<Result>(who: string, work: (client: PoolClient) => Promise<Result>): Promise<Result> {
    return this.#within(this.#core, work, 'use', who)
  }

  /** The same on the connections of renewals. */
  useBeat<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#heartbeat, work, doing)
  }

  /** The same on the connections for transactions that may wait. */
  useWaiting<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#waiting, work, doing)
  }

  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.use((client) => inTransaction(client, 'BEGIN', work, isKept))
  }

  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.useWaiting((client) => inTransaction(client, beginWaiting, work, isKept))
  }

  /** What rolls it back after a failure comes behind the next one's COMMIT, so it harms nobody. */
  atOnceWaiting<Result>(who: string, send: (client: PoolClient) => Promise<Result>): Promise<Result> {
    const work = (client: PoolClient, keep: () => void) => {
      const sent = send(client)
      keep()
      return sent
    }
    return this.#within(
      this.#waiting,
      (client) => inTransaction(client, beginWaiting, work, () => true),
      'use',
      `line ${who}`,
    )
  }

  /** Sends a statement without waiting for those before it; a time-out of its own breaks the connection. */
  send<Row extends QueryResultRow>(
    client: Runner,
    { name, text }: Statement,
    values: unknown[],
    timeoutMs?: number,
  ): Promise<QueryResult<Row>> {
    const query = {
      ...(this.#prepared ? { name } : {}),
      ...(timeoutMs === undefined ? {} : { query_timeout: timeoutMs }),
      text,
      values,
    }
    return client.query<Row>(query)
  }

  /** The same, with rows as arrays. */
  async sendForArrays<Row extends readonly unknown[]>(
    client: Runner,
    { name, text }: Statement,
    values: unknown[],
  ): Promise<readonly Row[]> {
    const prepared = this.#prepared ? { name } : {}
    const { rows } = await client.query<unknown[]>({ ...prepared, text, values, rowMode: 'array' })
    return rows as unknown as readonly Row[]
  }

  /** A statement by itself has been committed when it was answered. */
  onCommit(effect: () => void): void {
    effect()
  }

  /** A connection for a handler's transaction; whoever takes it gives it back, or breaks it. */
  async lend(): Promise<PoolClient> {
    this.refuseClosed()
    const { meter } = this.#handlers
    const ticket = meter.begin('transaction')
    try {
      const client = await this.#lender.lend()
      meter.enter(ticket)
      this.#lent.set(client, ticket)
      return client
    } catch (error) {
      meter.leave(ticket)
      throw toStoreError(error)
    }
  }

  /** Tells whoever has borrowed a connection that it is lost, until it is given back. */
  onLoss(client: PoolClient, told: () => void): void {
    this.#lender.onLoss(client, told)
  }

  /** Takes a lent connection back; one that is not clean is done away with. */
  giveBack(client: PoolClient, isClean: boolean): void {
    this.#handlers.meter.leave(this.#lent.get(client) ?? 0)
    this.#lender.giveBack(client, isClean)
  }

  /** What is prepared on a lent connection; undefined when nothing may be. */
  preparedOn(client: PoolClient): PreparedStatements | undefined {
    if (!this.#prepared) return undefined
    let prepared = this.#preparedOn.get(client)
    if (prepared === undefined) {
      prepared = new PreparedStatements()
      this.#preparedOn.set(client, prepared)
    }
    return prepared
  }

  /** Prepares nothing any more if the error says that somebody between us and the server mixes up what is prepared. */
  noteUnprepared(error: unknown): boolean {
    const isUnprepared = unpreparedStates.has(sqlState(error) ?? '')
    if (isUnprepared) this.#prepared = false
    return isUnprepared
  }

  async #within<Result>(
    pool: MeteredPool,
    work: (client: PoolClient) => Promise<Result>,
    doing = 'use',
    who?: string,
  ): Promise<Result> {
    this.refuseClosed()
    this.#active++
    try {
      for (let tries = 1; ; tries++) {
        const before = who === undefined ? undefined : this.#shared.get(who)
        const isBehind = before?.users === 1
        try {
          return await (isBehind ? before : this.#borrow(pool, doing, who)).use(work)
        } catch (error) {
          const state = sqlState(error) ?? ''
          // What the one ahead of it was to prepare was not, if that one failed: no pooler's doing.
          const isForgiven = isBehind && tries === 1 && unpreparedStates.has(state)
          const isRetried = isForgiven || this.noteUnprepared(error) || retried.has(state)
          if (!isRetried || tries === 5) throw toStoreError(error)
        }
      }
    } finally {
      this.#active--
      if (this.#active === 0) this.#onIdle?.()
    }
  }

  #borrow(pool: MeteredPool, doing: string, who: string | undefined): Borrowed {
    const borrowed = new Borrowed(pool, doing)
    if (who === undefined) return borrowed
    this.#shared.set(who, borrowed)
    void borrowed.over.then(() => {
      if (this.#shared.get(who) === borrowed) this.#shared.delete(who)
    })
    return borrowed
  }

  refuseClosed(): void {
    if (this.#closed) {
      throw new SignalboxError('closed', 'This Postgres store was closed. Open another.')
    }
  }

  /** Waits for what is under way, but not for handlers that never give their connection back. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, closeMs)
    // A pool that is ended forgets those who still wait for one of its connections.
    if (this.#active > 0) {
      const { promise: idle, resolve: onIdle } = Promise.withResolvers<void>()
      this.#onIdle = onIdle
      await Promise.race([idle, late])
    }
    this.#lender.close()
    const ends = [this.#core, this.#heartbeat, this.#waiting, this.#handlers].map(({ pool }) => pool.end())
    await Promise.race([Promise.allSettled(ends), late])
    clearTimeout(timer)
  }
}

/**
 * The isolation is said outright: each statement must see what was committed before it, whatever the default is. And a
 * process that stands still must not keep others from the rows it has: the server ends its transaction.
 */
const beginWaiting =
  "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '5s'"

async function inTransaction<Result>(
  client: PoolClient,
  begin: string,
  work: (client: PoolClient, keep: () => void) => Promise<Result>,
  isKept: (result: Result) => boolean,
): Promise<Result> {
  let ending: Promise<unknown> | undefined
  // Behind a statement that failed, which is what the work tells of, a COMMIT is a ROLLBACK.
  const keep = () => {
    ending ??= client.query('COMMIT')
    ending.catch(() => undefined)
  }
  try {
    const result = await inOnePacket(client, () => {
      // Its failure shows in the statement after it.
      client.query(begin).catch(() => undefined)
      return work(client, keep)
    })
    await (ending ?? client.query(isKept(result) ? 'COMMIT' : 'ROLLBACK'))
    return result
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

/** Deadlock and serialisation failure: nothing was written. */
const retried = new Set(['40001', '40P01'])
/** Prepared statements that a pooler forgot, or gave to another; nothing was written either. */
const unpreparedStates = new Set(['26000', '42P05'])

function createPool(config: ClientConfig, max: number): Pool {
  const pool = new Pool({ ...config, pipeline: true, max, idleTimeoutMillis: 30_000, allowExitOnIdle: true })
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on('error', () => undefined)
  // The same for one that is lent: whoever has it learns of it from the statement that fails.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
