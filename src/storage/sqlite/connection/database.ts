import type { SQLInputValue } from 'node:sqlite'
import type { Added, NewJob } from '../../../jobs/index.ts'
import type { Database, RunOptions } from '../../sql/database.ts'
import { insertDependencies } from '../../sql/dependencies/new-dependencies.ts'
import { finish, type Operation, type Procedure, type Result, run } from '../../sql/procedure.ts'
import { type Bound, type Compiled, Compiler, type Slot } from '../../sql/statement.ts'
import { sqliteDialect } from '../dialect.ts'
import { insertJobs } from '../jobs/add.ts'
import type { SqliteTransactions } from '../jobs/jobs.ts'
import type { Writer } from '../writing/writes.ts'
import { type Connection, type Moment, readNow } from './connection.ts'
import type { Reader } from './reader.ts'

/** Runs shared operations on SQLite: writes go to the write queue by name, reads to the reader. */
export interface SqliteDatabaseOptions {
  readonly writer: Writer
  readonly reader: Reader
  readonly transactions: Pick<SqliteTransactions, 'join'>
  /** Throws if the store was closed. */
  check(): void
}

export class SqliteDatabase implements Database {
  readonly #options: SqliteDatabaseOptions

  constructor(options: SqliteDatabaseOptions) {
    this.#options = options
  }

  async run<Args extends readonly unknown[], Answer>(
    operation: Operation<Args, Answer>,
    args: Args,
    { tx }: RunOptions = {},
  ): Promise<Answer> {
    const { writer, transactions, check } = this.#options
    check()
    const { name, isRead, upkeep } = operation
    if (tx !== undefined) {
      return transactions.join(tx, (connection) => runOperation(connection, operation, args))
    }
    if (isRead) return this.#read(operation.procedure(...args))
    if (upkeep && !(await this.#read(upkeep.isNeeded(...args)))) return upkeep.otherwise
    return (await writer.write({ operation: 'run', namespace: '', args: [name, args] })) as Answer
  }

  #read<Answer>(procedure: Procedure<Answer>): Promise<Answer> {
    return this.#options.reader.read((connection) => runHere(connection, procedure))
  }
}

const compiler = new Compiler(sqliteDialect)

/** Runs an operation in the connection's current transaction. An operation that may undo gets a savepoint. */
export function runOperation<Args extends readonly unknown[], Answer>(
  connection: Connection,
  { procedure, mayUndo }: Operation<Args, Answer>,
  args: Args,
  now?: number,
): Answer {
  if (!mayUndo) return runHere(connection, procedure(...args), now)
  connection.run('SAVEPOINT signalbox_operation')
  const answer = runHere(connection, procedure(...args), now)
  connection.run('RELEASE signalbox_operation')
  return answer
}

/** Runs a procedure to its end in the connection's current transaction. */
export function runHere<Answer>(connection: Connection, procedure: Procedure<Answer>, now?: number): Answer {
  let instant = now
  const clock = () => (instant ??= readNow(connection))
  let step = procedure.next()
  while (!step.done) {
    const { statements, adding, isLast, isUndo } = step.value
    if (isUndo) {
      connection.run('ROLLBACK TO signalbox_operation')
      return finish(procedure)
    }
    const results = statements.map((bound) => execute(connection, bound, clock))
    if (adding) {
      const rows = addJobs({ connection, namespace: adding.namespace, now: clock() }, adding.jobs)
      results.push({ rows, rowCount: rows.length })
    }
    step = procedure.next(results)
    // The other engines have committed at this point.
    if (isLast && !step.done && !step.value.statements.every(isRead))
      throw new Error('A step that was marked as the last was followed by one that writes.')
  }
  return step.value
}

/** Adds jobs in the connection's current transaction, and writes what they wait for. */
export function addJobs(moment: Moment, jobs: readonly NewJob[]): readonly Added[] {
  const { connection, namespace, now } = moment
  const added = insertJobs(moment, jobs)
  if (jobs.some(({ dependsOn }) => dependsOn))
    runHere(connection, run(...insertDependencies(namespace, jobs, added)), now)
  return added
}

function isRead(bound: Bound): boolean {
  return compiler.compile(bound).text.startsWith('SELECT')
}

function execute(connection: Connection, bound: Bound, clock: () => number): Result {
  const compiled = compiler.compile(bound)
  const { params } = bound
  if (!compiled.isPerRow)
    return executeOnce(
      connection,
      compiled,
      compiled.slots.map((slot) => bind(slot, params, params, clock)),
    )
  const rows: unknown[] = []
  let rowCount = 0
  for (const row of params.rows as readonly Bound['params'][]) {
    const result = executeOnce(
      connection,
      compiled,
      compiled.slots.map((slot) => bind(slot, params, row, clock)),
    )
    rows.push(...result.rows)
    rowCount += result.rowCount
  }
  return { rows, rowCount }
}

function executeOnce(connection: Connection, { text, givesRows }: Compiled, values: SQLInputValue[]): Result {
  if (!givesRows) return { rows: [], rowCount: connection.run(text, ...values) }
  const rows = connection.all(text, ...values)
  return { rows, rowCount: rows.length }
}

function bind(
  { from, name }: Slot,
  params: Bound['params'],
  row: Bound['params'],
  clock: () => number,
): SQLInputValue {
  if (from === 'clock') return name === 'micros' ? tickMicros(clock()) : clock()
  const value = (from === 'row' ? row : params)[name]
  // SQLite has neither booleans nor lists.
  if (typeof value === 'boolean') return Number(value)
  return (Array.isArray(value) ? JSON.stringify(value) : value) as SQLInputValue
}

let lastMicros = 0

/** The store's clock counts milliseconds. Within one millisecond this counts on. */
function tickMicros(now: number): number {
  lastMicros = Math.max(lastMicros + 1, now * 1_000)
  return lastMicros
}
