import { closeSync, constants, existsSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { SignalboxError } from '../../../core/errors.ts'
import type { QueueControls } from '../jobs/queue-control.ts'
import { explain, isBusy } from './failures.ts'

/**
 * One connection to the file, with the statements it has prepared. Opening it never waits inside SQLite
 * (`busy_timeout = 0`), and neither does anything done with it: who finds the file locked tries again from the event
 * loop (write-queue.ts, reader.ts), so that no other work of the process stands still meanwhile.
 *
 * Statements that every claim makes say `LIMIT ?2 + 0`. SQLite plans by the value of a bare `LIMIT ?2`, so whenever one is
 * bound it prepares the whole statement anew, which costs several times what running it does.
 */
export interface Location {
  readonly path: string
  readonly synchronous: 'full' | 'normal'
  /** A clock that a test moves by hand, in epoch milliseconds; it stands for SQLite's clock and for that of leases. */
  readonly now?: (() => number) | undefined
}

/** The file that `sqlite:FILE` or `sqlite:FILE?synchronous=normal` names. */
export function parseLocation(url: string): Location {
  const [, file = '', query = ''] = /^sqlite:([^?]*)(?:\?(.*))?$/s.exec(url) ?? []
  if (file === ':memory:') throw refuse('has no file: use `memory:` for a store that lives in this process')
  if (file === '' || file.includes('\0')) throw refuse('must name a file, as in `sqlite:signalbox.db`')
  if (/^\/\/[^/]/.test(file)) throw refuse('has no host: write `sqlite:FILE` or `sqlite:/absolute/FILE`')
  let synchronous: Location['synchronous'] = 'full'
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== 'synchronous' || (value !== 'full' && value !== 'normal')) {
      throw refuse('takes no settings but `?synchronous=full` and `?synchronous=normal`')
    }
    synchronous = value
  }
  return { path: resolve(file), synchronous }
}

function refuse(what: string): SignalboxError {
  return new SignalboxError('invalid_argument', `The address of a SQLite store ${what}.`)
}

/** Creates the file and its folder if they are missing, for the current user only. SQLite's own files get the same mode. */
export function createFile({ path }: Location): void {
  try {
    createFolder(dirname(path))
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600))
  } catch (error) {
    // A link that leads nowhere would be followed by SQLite, which makes a file there that everybody may read.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' && existsSync(path)) return
    throw new SignalboxError(
      'store_unavailable',
      `The SQLite file "${path}" could not be created: ${(error as Error).message}.`,
      { cause: error },
    )
  }
}

/** Not `recursive: true`, which never comes back from a folder that cannot have any, such as /proc. */
function createFolder(path: string): void {
  if (existsSync(path)) return
  createFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** What a connection asks of the database it stands for. */
export type ConnectionDatabase = Pick<
  DatabaseSync,
  'prepare' | 'exec' | 'close' | 'location' | 'isOpen' | 'isTransaction'
>

/** Statements kept prepared per connection; users' texts count too, and may be without end. */
const keptStatements = 300

export class Connection {
  readonly db: ConnectionDatabase
  readonly #statements = new Map<string, StatementSync>()
  readonly #reading = new WeakMap<StatementSync, boolean>()
  /** The file as it was when we opened it, and where; of a caller's own connection we know neither. */
  readonly #file: { readonly path: string; readonly dev: number; readonly ino: number } | undefined
  readonly #now: (() => number) | undefined
  #turn = createTurn()

  constructor(db: ConnectionDatabase, path?: string, now?: () => number) {
    this.db = db
    this.#now = now
    if (path === undefined) return
    const { dev, ino } = statSync(path)
    this.#file = { path, dev, ino }
  }

  /** What the clock of a test reads; undefined where the store has its own clock. */
  testedNow(): number | undefined {
    return this.#now && Math.floor(this.#now())
  }

  /** False when the file was moved, deleted or replaced: later writes would be lost. */
  isInPlace(): boolean {
    if (this.#file === undefined) return true
    const { path, dev, ino } = this.#file
    const found = statSync(path, { throwIfNoEntry: false })
    return found?.ino === ino && found.dev === dev
  }

  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.db.prepare(sql)
    if (this.#statements.size >= keptStatements) {
      const [oldest] = this.#statements.keys()
      this.#statements.delete(oldest!)
    }
    this.#statements.set(sql, statement)
    return statement
  }

  /** Whether a statement has rows to give, as SELECT and RETURNING have. */
  givesRows(statement: StatementSync): boolean {
    const known = this.#reading.get(statement)
    if (known !== undefined) return known
    const gives = statement.columns().length > 0
    this.#reading.set(statement, gives)
    return gives
  }

  /** The rows' type is what the statement selects; nothing checks it. */
  all<Row>(sql: string, ...params: SQLInputValue[]): Row[] {
    return this.prepare(sql).all(...params) as Row[]
  }

  /** The same with each row as an array: much cheaper to make and to read than objects, where rows are many. */
  rows<Row extends readonly unknown[]>(sql: string, ...params: SQLInputValue[]): Row[] {
    const known = this.#statements.get(sql)
    const statement = known ?? this.prepare(sql)
    if (!known) statement.setReturnArrays(true)
    return statement.all(...params) as unknown as Row[]
  }

  get<Row>(sql: string, ...params: SQLInputValue[]): Row | undefined {
    return this.prepare(sql).get(...params) as Row | undefined
  }

  /** How many rows it changed. */
  run(sql: string, ...params: SQLInputValue[]): number {
    return Number(this.prepare(sql).run(...params).changes)
  }

  begin(): void {
    this.run('BEGIN IMMEDIATE')
    this.#turn = createTurn()
  }

  /** What writes that share a transaction need to find out once. */
  get turn(): Turn {
    return this.#turn
  }

  commit(): void {
    this.run('COMMIT')
  }

  /** Leaves no transaction open. SQLite may have rolled back by itself, as it does when the disk is full. */
  rollback(): void {
    if (this.db.isOpen && this.db.isTransaction) this.run('ROLLBACK')
  }

  /** Closes what is not used again either way, whatever that says. */
  abandon(): void {
    try {
      this.close()
    } catch {
      // The file's state is the next one's business.
    }
  }

  close(): void {
    this.#statements.clear()
    if (this.db.isOpen) this.db.close()
  }
}

/** What is known in one transaction of the writer's; nothing of it outlives that. */
export interface Turn {
  /** The store's clock when the lock was got. */
  now: number | undefined
  /** Namespaces in which all that fell due or ran out by `now` has been made ready. */
  readonly swept: Set<string>
  /** What is decided about queues, by namespace, where it has been looked up. */
  readonly controls: Map<string, QueueControls>
}

function createTurn(): Turn {
  return { now: undefined, swept: new Set(), controls: new Map() }
}

/** The store's clock, in whole milliseconds; rounded, because 0.891 · 1,000 may fall just short of 891. */
export const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER)`
const selectNow = `SELECT ${now} AS now`

export function readNow(connection: Connection): number {
  return connection.testedNow() ?? connection.get<{ now: number }>(selectNow)!.now
}

/** Where and when something is done in the transaction that the connection is in. */
export interface Moment {
  readonly connection: Connection
  readonly namespace: string
  /** By the store's clock. */
  readonly now: number
}

export function momentOf(connection: Connection, namespace: string): Moment {
  return { connection, namespace, now: readNow(connection) }
}

/** Opens the file for writing. Throws busy faults as SQLite gives them, for the caller to try again. */
export function openWriter(location: Location): Connection {
  const { path, synchronous } = location
  return opened(location, false, (db) => {
    const { journal_mode: mode } = db.prepare('PRAGMA journal_mode = WAL').get() as { journal_mode: string }
    if (mode !== 'wal') {
      throw new SignalboxError(
        'engine_unsupported',
        `The SQLite file "${path}" cannot be used in WAL mode (its journal mode is ${mode}). Put it on a local file system.`,
      )
    }
    db.exec(`PRAGMA synchronous = ${synchronous === 'full' ? 'FULL' : 'NORMAL'}`)
    // Savepoints of a group commit keep their undo pages here; in memory they cost no file.
    db.exec('PRAGMA temp_store = MEMORY')
    db.exec('PRAGMA cache_size = -16000')
    // A long read lets the WAL grow. This limit shrinks it again afterwards.
    db.exec('PRAGMA journal_size_limit = 67108864')
  })
}

/** Opens the file for reading only; a writer must be open, for WAL's own files have to be there. */
export function openReader(location: Location): Connection {
  return opened(location, true, (db) => db.exec('PRAGMA cache_size = -8000'))
}

function opened(
  { path, now: testedNow }: Location,
  readOnly: boolean,
  prepare: (db: DatabaseSync) => void,
): Connection {
  let db: DatabaseSync | undefined
  // SQLite would make an empty one in its place.
  if (!existsSync(path)) {
    throw new SignalboxError(
      'store_unavailable',
      `The SQLite file "${path}" is gone: it was moved or deleted. Put it back.`,
    )
  }
  try {
    db = new DatabaseSync(path, { readOnly, timeout: 0, allowExtension: false, defensive: true })
    db.exec('PRAGMA trusted_schema = OFF')
    prepare(db)
    return new Connection(db, path, testedNow)
  } catch (error) {
    if (db?.isOpen) db.close()
    throw isBusy(error) ? error : explain(error)
  }
}
