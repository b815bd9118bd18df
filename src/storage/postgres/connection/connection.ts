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
/** A process that stands still in a transaction keeps others from its rows for so long; the server ends it then. */
const idleMs: Readonly<Record<ConnectionGroup, number>> = { core: 20_000, waiting: 5_000, heartbeat: 5_000 }

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
  readonly target: Target
  readonly #takesOptions: boolean
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
   * Begins a transaction on a connection of a group. Where the server takes no options it says what they would have: each statement
   * sees what was committed before it, and the server ends the transaction of a process that stands still.
   */
  beginOf(connectionGroup: ConnectionGroup): string {
    if (this.#takesOptions) return 'BEGIN'
    return `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = ${idleMs[connectionGroup]}`
  }

  get closed(): boolean {
    return this.#closed !== undefined
  }

  /** Runs one statement of the store's own, again when the database gave it up for another's sake. */
  run<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#within(this.#core, (client) => this.send<Row>(client, statement, values), statement.name)
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
    return this.use((client) => inTransaction(client, this.beginOf('core'), work, isKept))
  }

  allOrNothingWaiting<Result>(
    work: (client: PoolClient, keep: () => void) => Promise<Result>,
    isKept: (result: Result) => boolean,
  ): Promise<Result> {
    return this.useWaiting((client) => inTransaction(client, this.beginOf('waiting'), work, isKept))
  }

  /** Sends a statement without waiting for earlier ones; if it has a separate time-out, passing it breaks the connection. */
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

  /** The same, with rows as arrays of text. */
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

  /** A statement by itself has been committed when it was answered. */
  onCommit(effect: () => void): void {
    effect()
  }

  /** Lends a connection to a handler's transaction; the borrower gives it back or breaks it. */
  async lend(): Promise<PoolClient> {
    this.refuseClosed()
    const { pool, meter } = this.#handlers
    const ticket = meter.begin('transaction')
    try {
      const client = await pool.connect()
      meter.enter(ticket)
      this.#lent.set(client, ticket)
      return client
    } catch (error) {
      meter.leave(ticket)
      throw toStoreError(error)
    }
  }

  /** Takes a lent connection back; one that is not clean is done away with. */
  giveBack(client: PoolClient, isClean: boolean): void {
    this.#handlers.meter.leave(this.#lent.get(client) ?? 0)
    client.release(!isClean)
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

  /** Stops preparing statements if the error says that a pooler in between mixes up prepared statements. */
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
          const isRetried = this.noteUnprepared(error) || retried.has(sqlState(error) ?? '')
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
    // A connection with an open transaction, or with answers still to come, must not be lent to the next.
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

/** Values as they come: the driver's own parsers test each big number by a regular expression. */
const asText = { getTypeParser: () => (text: string) => text }

/** Deadlock and serialisation failure: nothing was written. */
const retried = new Set(['40001', '40P01'])
/** Prepared statements that a pooler forgot, or gave to another; nothing was written either. */
const unpreparedStates = new Set(['26000', '42P05'])

function createPool(config: ClientConfig, max: number): Pool {
  const pool = new Pool({ ...config, pipeline: true, max, idleTimeoutMillis: 30_000, allowExitOnIdle: true })
  // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
  pool.on('error', () => undefined)
  // The same for a lent connection: its borrower learns of the loss from the statement that fails.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
