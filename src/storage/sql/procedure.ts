import type { Added, NewJob } from '../../jobs/index.ts'
import type { Bound } from './statement.ts'

/**
 * A store operation that all SQL engines run. It is a generator: it yields statements and receives their results.
 * SQLite runs the statements at once, inside its group commit. Postgres and MariaDB send them over a connection.
 *
 *     yield* run(a, b)        one round trip for both: neither may need the other's result
 *     yield* last(run(c))     sends COMMIT along; an operation of one statement needs no BEGIN either
 *     yield* undo()           rolls back the operation's writes; the operation must declare `mayUndo`
 *
 * A write is one transaction. When the database gives the transaction up, the engine may run the procedure again from
 * its start. So a procedure has no effects except its statements. README.md says how to write a store.
 */
export type Procedure<Answer> = Generator<Step, Answer, readonly Result[]>

/** Statements that the engine sends together, in one round trip. */
export interface Step {
  readonly statements: readonly Bound[]
  /** Jobs to add in the same transaction, with the engine's own statements. */
  readonly adding?: { readonly namespace: string; readonly jobs: readonly NewJob[] }
  /** True: this is the last step. */
  readonly isLast: boolean
  /** True: roll back the operation's writes. */
  readonly isUndo?: boolean
}

export interface Result {
  readonly rows: readonly unknown[]
  /**
   * The number of rows that the statement returned or changed. MariaDB does not count rows that an UPDATE left
   * unchanged.
   */
  readonly rowCount: number
}

/** Sends statements together and returns the result of each. */
export function* run(...statements: readonly Bound[]): Procedure<readonly Result[]> {
  return statements.length === 0 ? [] : yield { statements, isLast: false }
}

/** Sends one statement and returns its rows. Their type must match what the statement selects; nothing checks it. */
export function* many<Row>(statement: Bound): Procedure<readonly Row[]> {
  const [result] = yield { statements: [statement], isLast: false }
  return result!.rows as readonly Row[]
}

/** Sends one statement and returns its first row. */
export function* one<Row>(statement: Bound): Procedure<Row | undefined> {
  return (yield* many<Row>(statement))[0]
}

/** Sends one statement and returns the number of rows that it changed. */
export function* count(statement: Bound): Procedure<number> {
  const [result] = yield { statements: [statement], isLast: false }
  return result!.rowCount
}

/**
 * Adds jobs in the same transaction, with the engine's own statements, and sends `statements` along, in any order. The
 * database must be one that can add jobs (`withJobs`).
 */
export function* addJobs(
  namespace: string,
  jobs: readonly NewJob[],
  ...statements: readonly Bound[]
): Procedure<readonly Added[]> {
  if (jobs.length === 0) {
    yield* run(...statements)
    return []
  }
  const results = yield { statements, adding: { namespace, jobs }, isLast: false }
  return results.at(-1)!.rows as readonly Added[]
}

/** Rolls back the operation's writes. No step may follow. */
export function* undo(): Procedure<void> {
  yield { statements: [], isLast: true, isUndo: true }
}

/** Resumes a procedure after its last step and returns its answer. */
export function finish<Answer>(procedure: Procedure<Answer>): Answer {
  const { done, value } = procedure.next([])
  if (!done) throw new Error('A procedure continued after its last step.')
  return value
}

/** Marks a step as the last of a write. */
export function* last<Answer>(step: Procedure<Answer>): Procedure<Answer> {
  const sent = step.next()
  if (sent.done) return sent.value
  const { done, value } = step.next(yield { ...sent.value, isLast: true })
  if (!done) throw new Error('A procedure continued after its last step.')
  return value
}

/**
 * The connections that an operation uses, so that no group of operations can starve another: `core` for short calls,
 * `waiting` for calls that may wait for row locks, `heartbeat` for renewals, which have priority.
 */
export type ConnectionGroup = 'core' | 'waiting' | 'heartbeat'

/** An operation reaches SQLite's writer thread as a name and arguments. The arguments must be plain JSON data. */
export interface Operation<Args extends readonly unknown[] = readonly never[], Answer = unknown> {
  /** A verb and its object. Messages use it after "could not …", and metrics use it as the operation's name. */
  readonly name: string
  /**
   * True: the operation only reads. It needs no transaction, and SQLite runs it on a reader connection. @default false
   */
  readonly isRead?: boolean
  /** @default 'core' */
  readonly connectionGroup?: ConnectionGroup
  /** Whether the operation may `undo`. SQLite then sets a savepoint first. @default false */
  readonly mayUndo?: boolean
  procedure(...args: Args): Procedure<Answer>
  /**
   * For upkeep that seldom has work: a read checks first, so that idle upkeep neither opens a transaction nor takes
   * SQLite's writer.
   */
  readonly upkeep?: {
    isNeeded(...args: Args): Procedure<boolean>
    /** The operation's answer when there is no work. */
    readonly otherwise: Answer
  }
}

const operations = new Map<string, Operation>()

/** Registers an operation under its name. */
export function operation<const Args extends readonly unknown[], Answer>(
  definition: Operation<Args, Answer>,
): Operation<Args, Answer> {
  if (operations.has(definition.name)) throw new Error(`There are two operations "${definition.name}".`)
  operations.set(definition.name, definition as unknown as Operation)
  return definition
}

/** Finds an operation by its name. */
export function findOperation(name: string): Operation<readonly unknown[]> {
  const found = operations.get(name)
  if (found === undefined)
    throw new Error(`There is no operation "${name}": its store is not in sql/stores.ts.`)
  return found as unknown as Operation<readonly unknown[]>
}
