import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
import type { Database, JobAdder, RunOptions } from '../../sql/database.ts'
import {
  type ConnectionGroup,
  finish,
  type Operation,
  type Procedure,
  type Result,
} from '../../sql/procedure.ts'
import { type Bound, Compiler, type Slot } from '../../sql/statement.ts'
import { createPostgresDialect } from '../dialect.ts'
import { inCallers, requireTransaction, wrongDatabase } from './caller-transaction.ts'
import type { Connections } from './connection.ts'
import { inOnePacket } from './pipeline.ts'
import type { Sender } from './sender.ts'
import type { Runner } from './statement.ts'

/**
 * Shared operations on Postgres. The connections are pipelined: all statements of a step go out together, BEGIN with
 * the first step and COMMIT with the last. Behind a statement that failed, COMMIT is a ROLLBACK.
 */
export class PostgresDatabase implements Database {
  readonly #connections: Connections
  readonly #schema: string
  readonly #storeId: string
  #compiler: Compiler
  #addJobs: JobAdder<PoolClient> | undefined
  /** Connections of callers that are known to lead to this store. */
  readonly #checkedClients = new WeakSet<Runner>()

  /** `schema` comes quoted. */
  constructor(connections: Connections, schema: string, storeId: string) {
    this.#connections = connections
    this.#compiler = new Compiler(createPostgresDialect(schema))
    this.#schema = schema
    this.#storeId = storeId
  }

  /** The same for operations that add jobs. */
  withJobs(addJobs: JobAdder<PoolClient>): PostgresDatabase {
    const database = new PostgresDatabase(this.#connections, this.#schema, this.#storeId)
    database.#compiler = this.#compiler
    database.#addJobs = addJobs
    return database
  }

  async run<Args extends readonly unknown[], Answer>(
    operation: Operation<Args, Answer>,
    args: Args,
    { tx, leaseMs }: RunOptions = {},
  ): Promise<Answer> {
    if (tx !== undefined) return this.#runInCallers(operation.procedure(...args), tx)
    const timeoutMs = leaseMs === undefined ? undefined : Math.max(500, Math.floor(leaseMs / 3))
    const { isRead = false, connectionGroup = 'core', name, upkeep } = operation
    if (upkeep && !(await this.run({ name, isRead: true, procedure: upkeep.isNeeded }, args)))
      return upkeep.otherwise
    return this.#connections[useOfGroup[connectionGroup]](
      (client) =>
        this.#runOn(client, operation.procedure(...args), {
          isWithin: isRead,
          timeoutMs,
          begin: this.#connections.beginOf(connectionGroup),
        }),
      name,
    )
  }

  /** Runs a procedure in the transaction that the client is in. */
  runWithin<Answer>(client: PoolClient, procedure: Procedure<Answer>): Promise<Answer> {
    return this.#runOn(client, procedure, { isWithin: true })
  }

  /** The same database in the open transaction of a sender. */
  within(sender: Pick<Sender, 'use'>): Pick<Database, 'run'> {
    return {
      run: (operation, args) => sender.use((client) => this.runWithin(client, operation.procedure(...args))),
    }
  }

  async #runOn<Answer>(client: PoolClient, procedure: Procedure<Answer>, mode: RunMode): Promise<Answer> {
    const transaction = new Transaction(client, mode.begin ?? 'BEGIN')
    try {
      let step = procedure.next()
      while (!step.done) {
        const { statements, adding, isLast, isUndo } = step.value
        if (isUndo) {
          if (mode.isWithin) throw new Error('This operation cannot undo within a transaction of others.')
          await transaction.rollback()
          return finish(procedure)
        }
        const isAlone = isLast && statements.length === 1 && !adding
        const sent = inOnePacket(client, () => {
          // A single statement is a transaction by itself.
          if (!mode.isWithin && !isAlone) transaction.begin()
          const results = statements.map((bound) => this.#send(client, bound, mode.timeoutMs))
          const jobs = adding && this.#addJobs!(client, adding.jobs)
          if (jobs) {
            results.push(jobs.added.then((rows) => ({ rows, rowCount: rows.length })))
            transaction.onCommit(() => jobs.committed())
          }
          if (isLast && jobs?.isSent !== false) transaction.commit()
          return Promise.all(results)
        })
        step = procedure.next(await sent)
      }
      await transaction.end()
      return step.value
    } catch (error) {
      await transaction.rollback()
      throw error
    }
  }

  async #send(client: Runner, bound: Bound, timeoutMs?: number): Promise<Result> {
    const { name, text, slots } = this.#compiler.compile(bound)
    const statement = { name: `sb_${name}`, text }
    return toResult(await this.#connections.send(client, statement, bindAll(slots, bound), timeoutMs))
  }

  async #runInCallers<Answer>(procedure: Procedure<Answer>, tx: unknown): Promise<Answer> {
    const client = await requireTransaction(tx)
    return inCallers(async () => {
      await this.#requireThisStore(client)
      return this.runOnCallers(client, procedure)
    })
  }

  /** Runs a procedure in the transaction of a caller, which the store has checked. */
  async runOnCallers<Answer>(client: Runner, procedure: Procedure<Answer>): Promise<Answer> {
    let step = procedure.next()
    while (!step.done) {
      const results: Result[] = []
      for (const bound of step.value.statements) {
        const { text, slots } = this.#compiler.compile(bound)
        // Without a name: the store prepares no statements on a caller's connection.
        results.push(toResult(await client.query<QueryResultRow>(text, bindAll(slots, bound))))
      }
      step = procedure.next(results)
    }
    return step.value
  }

  /** Checks the database of a caller's connection once: it cannot change. */
  async #requireThisStore(client: Runner): Promise<void> {
    if (this.#checkedClients.has(client)) return
    const text = `SELECT FROM ${this.#schema}.signalbox_meta WHERE key = 'store_id' AND value = $1`
    const found: QueryResult = await client.query(text, [this.#storeId])
    if (found.rowCount !== 1) throw wrongDatabase()
    this.#checkedClients.add(client)
  }
}

interface RunMode {
  /** True: begin no transaction, because the client is in one or the operation only reads. */
  readonly isWithin: boolean
  readonly begin?: string
  readonly timeoutMs?: number | undefined
}

const useOfGroup = {
  core: 'use',
  waiting: 'useWaiting',
  heartbeat: 'useHeartbeat',
} as const satisfies Record<ConnectionGroup, string>

class Transaction {
  readonly #client: PoolClient
  readonly #begin: string
  readonly #effects: (() => void)[] = []
  #isBegun = false
  #ending: Promise<QueryResult> | undefined

  constructor(client: PoolClient, begin: string) {
    this.#client = client
    this.#begin = begin
  }

  begin(): void {
    if (this.#isBegun) return
    this.#isBegun = true
    // If BEGIN fails, the next statement fails too.
    this.#client.query(this.#begin).catch(() => undefined)
  }

  commit(): void {
    if (!this.#isBegun || this.#ending) return
    this.#ending = this.#client.query('COMMIT')
    this.#ending.catch(() => undefined)
  }

  async end(): Promise<void> {
    this.commit()
    const result = await this.#ending
    if (result !== undefined && result.command !== 'COMMIT')
      throw new Error(`COMMIT was answered with ${result.command}.`)
    for (const effect of this.#effects) effect()
  }

  onCommit(effect: () => void): void {
    this.#effects.push(effect)
  }

  async rollback(): Promise<void> {
    if (this.#isBegun) await this.#client.query('ROLLBACK').catch(() => undefined)
  }
}

function toResult({ rows, rowCount }: Pick<QueryResult, 'rows' | 'rowCount'>): Result {
  return { rows, rowCount: rowCount ?? 0 }
}

function bindAll(slots: readonly Slot[], { params }: Bound): unknown[] {
  return slots.map(({ from, name }) =>
    from === 'row' ? (params.rows as readonly Bound['params'][]).map((row) => row[name]) : params[name],
  )
}
