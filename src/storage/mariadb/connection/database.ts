import type { Database, JobAdder, RunOptions } from '../../sql/database.ts'
import {
  type ConnectionGroup,
  finish,
  type Operation,
  type Procedure,
  type Result,
} from '../../sql/procedure.ts'
import { type Bound, Compiler, type Slot } from '../../sql/statement.ts'
import { createMariadbDialect } from '../dialect.ts'
import { type CallerTx, toCallerTx } from './caller-transaction.ts'
import { begin, type Call, type Calls, commit, type Statement } from './calls.ts'
import { packStatements, sendAll } from './packets.ts'

/**
 * Runs shared operations on MariaDB: a step is one packet, with START TRANSACTION in the first and COMMIT in the last.
 */
export interface MariadbDatabaseOptions {
  readonly database: string
  readonly calls: Readonly<Record<ConnectionGroup, Calls>>
  /** The largest packet to send. */
  readonly packetBytes: number
  readonly addJobs?: JobAdder<Call>
  /** Throws unless the caller's transaction is open, and on this store. */
  checkTransaction(caller: CallerTx): Promise<void>
}

export class MariadbDatabase implements Database {
  readonly #options: MariadbDatabaseOptions
  #compiler: Compiler

  constructor(options: MariadbDatabaseOptions) {
    this.#options = options
    this.#compiler = new Compiler(createMariadbDialect(options.database))
  }

  /** The same database for operations that add jobs. */
  withJobs(addJobs: JobAdder<Call>): MariadbDatabase {
    const database = new MariadbDatabase({ ...this.#options, addJobs })
    database.#compiler = this.#compiler
    return database
  }

  /** The same database with other connections for operations that may wait for row locks, and `core` for all others. */
  withCalls(waiting: Calls, core: Calls = waiting): MariadbDatabase {
    const calls = { core, waiting, heartbeat: core }
    const database = new MariadbDatabase({ ...this.#options, calls })
    database.#compiler = this.#compiler
    return database
  }

  async run<Args extends readonly unknown[], Answer>(
    operation: Operation<Args, Answer>,
    args: Args,
    { tx, leaseMs, deadline = leaseDeadline(leaseMs) }: RunOptions = {},
  ): Promise<Answer> {
    if (tx !== undefined) {
      const caller = await toCallerTx(tx)
      this.#options.calls.core.requireOpen()
      await this.#options.checkTransaction(caller)
      return this.runInCallers(caller, operation.procedure(...args))
    }
    const { name, isRead = false, connectionGroup = 'core', upkeep } = operation
    if (upkeep && !(await this.run({ name, isRead: true, procedure: upkeep.isNeeded }, args)))
      return upkeep.otherwise
    return this.#options.calls[connectionGroup].run(
      name,
      (call) => this.runOn(call, operation.procedure(...args), isRead),
      deadline,
    )
  }

  /**
   * Runs a procedure as one transaction, or inside the transaction of the call. `isWithin`: a transaction is open
   * already. `before`: a statement to send with the first step.
   */
  async runOn<Answer>(
    call: Call,
    procedure: Procedure<Answer>,
    isWithin = false,
    before: readonly Statement[] = [],
  ): Promise<Answer> {
    const effects: (() => void)[] = []
    let isBegun = false
    let isEnded = isWithin
    let leading = before
    let step = procedure.next()
    while (!step.done) {
      const { statements, adding, isLast, isUndo } = step.value
      if (isUndo) {
        await call.packet([rollback])
        return finish(procedure)
      }
      const parts = statements.map((bound) => this.encode(bound))
      const sent = parts.flat()
      // A single statement is a transaction of its own.
      isEnded ||= !isBegun && isLast && sent.length === 1 && !adding
      if (!isEnded && !isBegun) leading = [...leading, begin]
      isBegun ||= !isEnded
      const added: Result[] = []
      if (adding) {
        // The jobs go first, so that COMMIT can go with the statements.
        if (leading.length > 0) await call.packet(leading)
        leading = []
        const jobs = this.#options.addJobs!(call, adding.jobs)
        const rows = await jobs.added
        added.push({ rows, rowCount: rows.length })
        effects.push(jobs.committed)
      }
      const isEnding: boolean = !isEnded && isLast
      isEnded ||= isEnding
      const answers = await sendAll(
        call,
        [...leading, ...sent, ...(isEnding ? [commit] : [])],
        this.#options.packetBytes,
      )
      const results = [...joinParts(parts, answers.slice(leading.length)), ...added]
      leading = []
      step = procedure.next(results)
    }
    if (!isEnded && isBegun) await call.packet([commit])
    for (const effect of effects) effect()
    return step.value
  }

  /** Runs a procedure in the transaction of a caller, which the store has checked. */
  async runInCallers<Answer>(caller: CallerTx, procedure: Procedure<Answer>): Promise<Answer> {
    let step = procedure.next()
    while (!step.done) {
      const parts = step.value.statements.map((bound) => this.encode(bound))
      const answers: unknown[] = []
      for (const statement of parts.flat()) answers.push(await caller.query(...inAnySession(statement)))
      step = procedure.next(joinParts(parts, answers))
    }
    return step.value
  }

  /** Splits a statement whose batch is larger than a packet. */
  encode(bound: Bound): readonly Statement[] {
    const { text, slots, isPerRow } = this.#compiler.compile(bound)
    if (isPerRow) {
      const each = bound.params.rows as readonly Bound['params'][]
      return each.map((row) => [
        text,
        slots.map((slot) => bind(slot, slot.from === 'row' ? row : bound.params)),
      ])
    }
    const batch = slots.find(({ columns }) => columns !== undefined)
    if (batch === undefined) return [[text, slots.map((slot) => bind(slot, bound.params))]]
    const values = slots.map((slot) => (slot === batch ? [] : bind(slot, bound.params)))
    const rows = bind(batch, bound.params) as readonly Statement[1][]
    // Sizes are overestimated (packets.ts), so half of a packet leaves enough for the rest of the statement.
    const chunks = packStatements(
      rows.map((row) => ['', row]),
      this.#options.packetBytes / 2,
    )
    const at = slots.indexOf(batch)
    return chunks.map((chunk) => [
      text,
      values.with(
        at,
        chunk.map(([, row]) => row),
      ),
    ])
  }
}

function leaseDeadline(leaseMs: number | undefined): number | undefined {
  return leaseMs === undefined ? undefined : performance.now() + Math.max(500, leaseMs / 3)
}

const rollback: Statement = ['ROLLBACK', []]

function bind({ name, type, columns }: Slot, params: Bound['params']): unknown {
  const value = params[name]
  if (columns) return (value as readonly Bound['params'][]).map((row) => columns.map((column) => row[column]))
  // `IN ()` is not valid SQL.
  return type.endsWith('[]') && (value as readonly unknown[]).length === 0 ? [null] : value
}

/** Combines the results of a statement's parts. */
function joinParts(parts: readonly (readonly Statement[])[], answers: readonly unknown[]): Result[] {
  let next = 0
  return parts.map((part) => {
    const results = part.map(() => toResult(answers[next++]))
    if (results.length === 1) return results[0]!
    return {
      rows: results.flatMap(({ rows }) => rows),
      rowCount: results.reduce((sum, { rowCount }) => sum + rowCount, 0),
    }
  })
}

function toResult(answer: unknown): Result {
  if (Array.isArray(answer)) return { rows: answer, rowCount: answer.length }
  return { rows: [], rowCount: (answer as { affectedRows?: number }).affectedRows ?? 0 }
}

/**
 * Adapts a statement to a session of a caller. Texts are bound as bytes, which every character set and quoting mode
 * reads correctly. The session's sql_mode may let all assignments read the old row (SIMULTANEOUS_ASSIGNMENT), but the
 * store's statements expect each to see those before it.
 */
function inAnySession([sql, values]: Statement): Statement {
  const flat: unknown[] = []
  const spell = (value: unknown): string => {
    if (Array.isArray(value))
      return value.map((item) => (Array.isArray(item) ? `(${spell(item)})` : spell(item))).join(', ')
    flat.push(typeof value === 'string' ? Buffer.from(value) : value)
    return typeof value === 'string' ? '_utf8mb4 ? COLLATE utf8mb4_nopad_bin' : '?'
  }
  let next = 0
  const text = sql.replaceAll('?', () => spell(values[next++]))
  return [`SET STATEMENT sql_mode = 'STRICT_TRANS_TABLES' FOR ${text}`, flat]
}
