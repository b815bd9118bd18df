import { type ClientConfig, Pool, type PoolClient, type QueryResult, type QueryResultRow } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import type { Meter, Ticket } from '../../../core/meter.ts'
import { PoolMeter } from '../../pool-meter.ts'
import type { ConnectionGroup } from '../../sql/procedure.ts'
import { isConnectionLoss, sqlState, toStoreError } from './failures.ts'
import { inOnePacket, PreparedStatements, StatementNames, statusOf } from './pipeline.ts'
import type { Sender } from './sender.ts'
import type { Runner, Statement } from './statement.ts'
import { plannerSettings, type Target } from './target.ts'

const lockMs = 5_000
const statementMs = 20_000
const answerMs = 25_000
const closeMs = 5_000
/** A process that hangs in a transaction blocks its rows for this long. Then the server ends its session. */
const idleMs: Readonly<Record<ConnectionGroup, number>> = { core: 20_000, waiting: 5_000, heartbeat: 5_000 }

/**
 * The connections of one store, in four groups, so that none can starve another: `core` for the store's short
 * statements, `heartbeat` for renewals, `waiting` for transactions that may wait for each other (wait queues of locks),
 * and `handlers` for transactions that a handler holds open.
 *
 * Every wait has a deadline. The time-outs of the server (lock and statement) come first and name the reason. The
 * time-out of the client follows, for a server that does not answer. The group `handlers` has no time-outs of the
 * server: the user decides how long a statement may take, and transact.ts limits the transaction.
 */
export class Connections implements Sender {
  readonly isOneTransaction = false
  readonly #core: MeteredPool
  readonly #heartbeat: MeteredPool
  readonly #waiting: MeteredPool
  readonly #handlers: MeteredPool
  readonly #lentTickets = new WeakMap<PoolClient, Ticket>()
  readonly target: Target
  readonly #takesOptions: boolean
  /** False after a pooler lost prepared statements. */
  #prepared = true
  readonly #preparedOn = new WeakMap<PoolClient, PreparedStatements>()
  /** Names the statements of handlers' transactions. */
  readonly statementNames: StatementNames = new StatementNames()
  #closed: Promise<void> | undefined
  /** The number of calls in flight. `#onIdle` is called after the last one. */
  #active = 0
  #onIdle: (() => void) | undefined

  constructor(target: Target, takesOptions: boolean, meter?: Meter) {
    this.target = target
    const bounded = (connectionGroup: ConnectionGroup): ClientConfig => {
      const limits = `-c lock_timeout=${lockMs} -c statement_timeout=${statementMs} -c idle_in_transaction_session_timeout=${idleMs[connectionGroup]}`
      return {
        ...target.config,
        query_timeout: answerMs,
        ...(takesOptions ? { options: `${plannerSettings} ${limits}` } : {}),
      }
    }
    this.#takesOptions = takesOptions
    const metered = (name: string, config: ClientConfig, size: number): MeteredPool => ({
      pool: createPool(config, size),
      meter: new PoolMeter(meter, `postgres.${name}`, size),
    })
    this.#core = metered('core', bounded('core'), 6)
    this.#heartbeat = metered('heartbeat', bounded('heartbeat'), 2)
    this.#waiting = metered('lines', bounded('waiting'), 6)
    this.#handlers = metered('handlers', target.config, target.poolSize)
  }

  /**
   * The BEGIN of a connection group. If the server accepts no options at connect, it contains their settings: the
   * isolation level, and the time after which the server ends the transaction of a process that hangs.
   */
  beginOf(connectionGroup: ConnectionGroup): string {
    if (this.#takesOptions) return 'BEGIN'
    return `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = ${idleMs[connectionGroup]}`
  }

  get closed(): boolean {
    return this.#closed !== undefined
  }

  /** Runs one statement of the store. Repeats it after a deadlock or serialisation failure. */
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#within(this.#core, (client) => this.send<Row>(client, statement, values), statement.name)
  }

  /**
   * Like `run`, on the connections of renewals, with a time-out of a third of the lease. If the server does not answer,
   * the connection is destroyed, and the next renewal uses another one while the lease is still valid. Renewals begin
   * after a third of the lease, so two tries fit in the rest. Shorter time-outs could be less than a commit takes on a
   * slow disk.
   */
  runRenewal<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
    leaseMs: number,
  ): Promise<QueryResult<Row>> {
    const timeoutMs = Math.max(500, Math.floor(leaseMs / 3))
    return this.#within(this.#heartbeat, (client) => this.send<Row>(client, statement, values, timeoutMs))
  }

  /** Lends a connection for several statements. Repeats `work` after a deadlock or serialisation failure. */
  use<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#core, work, doing)
  }

  /** Like `use`, on the connections of renewals. */
  useHeartbeat<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#heartbeat, work, doing)
  }

  /** Like `use`, on the connections of transactions that may wait. */
  useWaiting<Result>(work: (client: PoolClient) => Promise<Result>, doing?: string): Promise<Result> {
    return this.#within(this.#waiting, work, doing)
  }

  allOrNothing<Result>(
    work: (client: PoolClient) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.use((client) => inTransaction(client, this.beginOf('core'), work, isKept))
  }

  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.useWaiting((client) => inTransaction(client, this.beginOf('waiting'), work, isKept))
  }

  /** Sends a statement without waiting for earlier ones. If `timeoutMs` passes, the connection is destroyed. */
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

  /** Like `send`, with rows as arrays of text. */
  async sendForTexts(
    client: Runner,
    { name, text }: Statement,
    values: unknown[],
  ): Promise<readonly (readonly (string | null)[])[]> {
    const prepared = this.#prepared ? { name } : {}
    const { rows } = await client.query<(string | null)[]>({
      ...prepared,
      text,
      values,
      rowMode: 'array',
      types: asText,
    })
    return rows
  }

  /** Without a transaction, an answered statement is committed already. */
  onCommit(effect: () => void): void {
    effect()
  }

  /** Lends a connection to a handler's transaction. The borrower must give it back. */
  async lend(): Promise<PoolClient> {
    this.refuseClosed()
    const { pool, meter } = this.#handlers
    const ticket = meter.begin('transaction')
    try {
      const client = await pool.connect()
      meter.enter(ticket)
      this.#lentTickets.set(client, ticket)
      return client
    } catch (error) {
      meter.leave(ticket)
      throw toStoreError(error)
    }
  }

  /** Takes back a lent connection. Destroys it if it is not clean. */
  giveBack(client: PoolClient, isClean: boolean): void {
    this.#handlers.meter.leave(this.#lentTickets.get(client) ?? 0)
    client.release(!isClean)
  }

  /** The prepared statements of a lent connection. Undefined: the store must not prepare any. */
  preparedOn(client: PoolClient): PreparedStatements | undefined {
    if (!this.#prepared) return undefined
    let prepared = this.#preparedOn.get(client)
    if (prepared === undefined) {
      prepared = new PreparedStatements()
      this.#preparedOn.set(client, prepared)
    }
    return prepared
  }

  /** Stops preparing statements if the error shows that a pooler mixes up prepared statements. */
  noteUnprepared(error: unknown): boolean {
    const isUnprepared = unpreparedStates.has(sqlState(error) ?? '')
    if (isUnprepared) this.#prepared = false
    return isUnprepared
  }

  async #within<Result>(
    pool: MeteredPool,
    work: (client: PoolClient) => Promise<Result>,
    doing = 'use',
  ): Promise<Result> {
    this.refuseClosed()
    this.#active++
    try {
      for (let tries = 1; ; tries++) {
        try {
          return await borrow(pool, doing, work)
        } catch (error) {
          const isRetried = this.noteUnprepared(error) || retriedStates.has(sqlState(error) ?? '')
          if (!isRetried || tries === 5) throw toStoreError(error)
        }
      }
    } finally {
      this.#active--
      if (this.#active === 0) this.#onIdle?.()
    }
  }

  refuseClosed(): void {
    if (this.#closed) {
      throw new SignalboxError('closed', 'This Postgres store was closed. Open another.')
    }
  }

  /** Waits for calls in flight, at most 5 s: a handler may never give its connection back. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, closeMs)
    // `pool.end()` drops callers that still wait for a connection, so let them finish first.
    if (this.#active > 0) {
      const { promise: idle, resolve: onIdle } = Promise.withResolvers<void>()
      this.#onIdle = onIdle
      await Promise.race([idle, late])
    }
    const ends = [this.#core, this.#heartbeat, this.#waiting, this.#handlers].map(({ pool }) => pool.end())
    await Promise.race([Promise.allSettled(ends), late])
    clearTimeout(timer)
  }
}

/** A pool, and the meter that records how long callers wait for its connections. */
interface MeteredPool {
  readonly pool: Pool
  readonly meter: PoolMeter
}

async function borrow<Result>(
  { pool, meter }: MeteredPool,
  doing: string,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> {
  const ticket = meter.begin(doing)
  let client: PoolClient | undefined
  let isBroken = false
  try {
    client = await pool.connect()
    meter.enter(ticket)
    return await work(client)
  } catch (error) {
    isBroken = isConnectionLoss(error)
    throw error
  } finally {
    // Do not lend a connection again that has an open transaction or missing answers.
    client?.release(isBroken || statusOf(client) !== 'I')
    meter.leave(ticket)
  }
}

async function inTransaction<Result>(
  client: PoolClient,
  begin: string,
  work: (client: PoolClient, keep: () => void) => Promise<Result>,
  isKept: (result: Result) => boolean,
): Promise<Result> {
  let ending: Promise<unknown> | undefined
  // After a failed statement, COMMIT is a ROLLBACK, and `work` rejects with the error of that statement.
  const keep = () => {
    ending ??= client.query('COMMIT')
    ending.catch(() => undefined)
  }
  try {
    const result = await inOnePacket(client, () => {
      // If BEGIN fails, the next statement fails too.
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

/** Returns values as text: the driver's parsers test each big number by a regular expression. */
const asText = { getTypeParser: () => (text: string) => text }

/** Deadlock and serialisation failure: nothing was written. */
const retriedStates = new Set(['40001', '40P01'])
/** A pooler lost prepared statements or gave them to another client: nothing was written. */
const unpreparedStates = new Set(['26000', '42P05'])

function createPool(config: ClientConfig, max: number): Pool {
  const pool = new Pool({ ...config, pipeline: true, max, idleTimeoutMillis: 30_000, allowExitOnIdle: true })
  // The pool replaces an idle connection that breaks. Without a listener the error would end the process.
  pool.on('error', () => undefined)
  // The same for a lent connection: its borrower gets the error from its next statement.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
