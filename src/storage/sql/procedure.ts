import type { Added, NewJob } from '../../jobs/index.ts'
import type { Bound } from './statement.ts'

/**
 * A store operation that all SQL engines run. It is a generator: it yields statements and is given their results, by
 * SQLite at once, inside its group commit, by Postgres and MariaDB over a connection.
 *
 *     yield* run(a, b)        one round trip for both: neither may need the other's result
 *     yield* last(run(c))     COMMIT goes with it; with one statement in all, there is no BEGIN either
 *     yield* undo()           takes back what the operation wrote, which must be one that `mayUndo`
 *
 * A write is one transaction. It may be run again from its start when the database gave the transaction up, so it has
 * no effects but its statements. README.md says how a store is written.
 */
export type Procedure<Answer> = Generator<Step, Answer, readonly Result[]>

/** Statements that are sent together: one round trip. */
export interface Step {
  readonly statements: readonly Bound[]
  /** Jobs to add in the same transaction, by the engine's own statements. */
  readonly adding?: { readonly namespace: string; readonly jobs: readonly NewJob[] }
  /** Whether nothing follows. */
  readonly isLast: boolean
  /** Whether the operation's writes are to be taken back. */
  readonly isUndo?: boolean
}

export interface Result {
  readonly rows: readonly unknown[]
  /** How many rows it gave or changed. MariaDB leaves out those that an UPDATE left as they were. */
  readonly rowCount: number
}

/** Sends statements together; answers the result of each. */
export function* run(...statements: readonly Bound[]): Procedure<readonly Result[]> {
  return statements.length === 0 ? [] : yield { statements, isLast: false }
}

/** Sends one statement and answers its rows. Their type is what it selects; nothing checks it. */
export function* many<Row>(statement: Bound): Procedure<readonly Row[]> {
  const [result] = yield { statements: [statement], isLast: false }
  return result!.rows as readonly Row[]
}

/** The first row. */
export function* one<Row>(statement: Bound): Procedure<Row | undefined> {
  return (yield* many<Row>(statement))[0]
}

/** How many rows it changed. */
export function* count(statement: Bound): Procedure<number> {
  const [result] = yield { statements: [statement], isLast: false }
  return result!.rowCount
}

/**
 * Adds jobs in the same transaction, by the engine's own statements, and sends `statements` with them, in no order. The
 * database must be one `withJobs`.
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

/** Takes back what the operation wrote. Nothing may follow. */
export function* undo(): Procedure<void> {
  yield { statements: [], isLast: true, isUndo: true }
}

/** Resumes a procedure after its last step and gives its answer. */
export function finish<Answer>(procedure: Procedure<Answer>): Answer {
  const { done, value } = procedure.next([])
  if (!done) throw new Error('A last step was followed by another.')
  return value
}

/** Marks a step as the last of a write. */
export function* last<Answer>(step: Procedure<Answer>): Procedure<Answer> {
  const sent = step.next()
  if (sent.done) return sent.value
  const { done, value } = step.next(yield { ...sent.value, isLast: true })
  if (!done) throw new Error('A last step was followed by another.')
  return value
}

/**
 * Which connections it uses, so that none can starve another: `core` for short calls, `waiting` for those that may wait
 * for others' rows, `heartbeat` for renewals, which go before all else.
 */
export type Lane = 'core' | 'waiting' | 'heartbeat'

/** An operation crosses into SQLite's writer thread by name and arguments, which must be plain JSON data. */
export interface Operation<Args extends readonly unknown[] = readonly never[], Answer = unknown> {
  /** A verb and its object, which complete "could not …" in messages; also its name for those who measure. */
  readonly name: string
  /** Reads only: no transaction; on SQLite, on a connection of their own. @default false */
  readonly isRead?: boolean
  /** @default 'core' */
  readonly lane?: Lane
  /** Whether it may `undo`. SQLite sets a savepoint for those that may. @default false */
  readonly mayUndo?: boolean
  procedure(...args: Args): Procedure<Answer>
  /** Upkeep that seldom has anything to do: a read asks first, so that it opens no transaction, nor takes SQLite's writer, in vain. */
  readonly upkeep?: {
    isNeeded(...args: Args): Procedure<boolean>
    /** What it answers when there is nothing to do. */
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

/** An operation by its name. */
export function findOperation(name: string): Operation<readonly unknown[]> {
  const found = operations.get(name)
  if (found === undefined)
    throw new Error(`There is no operation "${name}": its store is not in sql/stores.ts.`)
  return found as unknown as Operation<readonly unknown[]>
}
