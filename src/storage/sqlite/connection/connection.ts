import { closeSync, constants, existsSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { SignalboxError } from '../../../core/errors.ts'
import type { QueueControls } from '../jobs/claim.ts'
import { explain, isBusy } from './failures.ts'

/**
 * One connection to the file, with its prepared statements. No call ever waits inside SQLite (`busy_timeout = 0`). If
 * the file is locked, the caller tries again from the event loop (write-queue.ts, reader.ts), so that other work of the
 * process continues.
 *
 * Statements that every claim runs use `LIMIT ?2 + 0`. SQLite plans by the value of a bare `LIMIT ?2`, so it would
 * prepare the whole statement again for each new value, which costs several times the run.
 */
export interface Location {
  readonly path: string
  readonly synchronous: 'full' | 'normal'
  /** A clock that a test sets, in epoch milliseconds. It replaces SQLite's clock and the clock of leases. */
  readonly now?: (() => number) | undefined
}

/** Parses the address `sqlite:FILE` or `sqlite:FILE?synchronous=normal`. */
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

/**
 * Creates the file and its folder if missing, accessible only to the current user. SQLite gives its own files the same
 * mode.
 */
export function createFile({ path }: Location): void {
  try {
    createFolder(dirname(path))
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600))
  } catch (error) {
    // SQLite would follow a broken link and create a file there that everyone can read.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' && existsSync(path)) return
    throw new SignalboxError(
      'store_unavailable',
      `The SQLite file "${path}" could not be created: ${(error as Error).message}.`,
      { cause: error },
    )
  }
}

/** Not `recursive: true`: it never returns for a folder that cannot have subfolders, such as /proc. */
function createFolder(path: string): void {
  if (existsSync(path)) return
  createFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process created it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** The functions that a connection needs from its database. */
export type ConnectionDatabase = Pick<
  DatabaseSync,
  'prepare' | 'exec' | 'close' | 'location' | 'isOpen' | 'isTransaction'
>

/** The number of prepared statements per connection. Users' texts count too, and may be unlimited in number. */
const keptStatements = 300

export class Connection {
  readonly db: ConnectionDatabase
  readonly #statements = new Map<string, StatementSync>()
  readonly #reading = new WeakMap<StatementSync, boolean>()
  /** The identity of the file when the store opened it. Unknown for a caller's connection. */
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

  /** The time of a test's clock. Undefined: the store uses its own clock. */
  testedNow(): number | undefined {
    return this.#now && Math.floor(this.#now())
  }

  /** False: the file was moved, deleted or replaced, and later writes would be lost. */
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

  /** Whether a statement returns rows, as SELECT and RETURNING do. */
  givesRows(statement: StatementSync): boolean {
    const known = this.#reading.get(statement)
    if (known !== undefined) return known
    const gives = statement.columns().length > 0
    this.#reading.set(statement, gives)
    return gives
  }

  /** The row type must match what the statement selects; nothing checks it. */
  all<Row>(sql: string, ...params: SQLInputValue[]): Row[] {
    return this.prepare(sql).all(...params) as Row[]
  }

  /** Returns each row as an array, which is much cheaper than an object when there are many rows. */
  rows<Row extends readonly unknown[]>(sql: string, ...params: SQLInputValue[]): Row[] {
    const known = this.#statements.get(sql)
    const statement = known ?? this.prepare(sql)
    if (!known) statement.setReturnArrays(true)
    return statement.all(...params) as unknown as Row[]
  }

  get<Row>(sql: string, ...params: SQLInputValue[]): Row | undefined {
    return this.prepare(sql).get(...params) as Row | undefined
  }

  /** Returns the number of changed rows. */
  run(sql: string, ...params: SQLInputValue[]): number {
    return Number(this.prepare(sql).run(...params).changes)
  }

  begin(): void {
    this.run('BEGIN IMMEDIATE')
    this.#turn = createTurn()
  }

  /** Shared by the writes of a transaction, so that each fact is read only once. */
  get turn(): Turn {
    return this.#turn
  }

  commit(): void {
    this.run('COMMIT')
  }

  /** Leaves no transaction open. SQLite may have rolled back by itself, for example when the disk is full. */
  rollback(): void {
    if (this.db.isOpen && this.db.isTransaction) this.run('ROLLBACK')
  }

  /** Closes a connection that is not used again, and ignores errors. */
  abandon(): void {
    try {
      this.close()
    } catch {
      // The next connection reports the state of the file.
    }
  }

  close(): void {
    this.#statements.clear()
    if (this.db.isOpen) this.db.close()
  }
}

/** Facts that are valid in one transaction of the writer only. */
export interface Turn {
  /** The store's clock when the transaction got the lock. */
  now: number | undefined
  /** Namespaces in which this transaction has already made due and expired jobs ready. */
  readonly swept: Set<string>
  /** Pauses and limits of queues, by namespace, after they were read. */
  readonly controls: Map<string, QueueControls>
}

function createTurn(): Turn {
  return { now: undefined, swept: new Set(), controls: new Map() }
}

/** The store's clock, in whole milliseconds. It rounds, because 0.891 · 1,000 may be slightly less than 891. */
export const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER)`
const selectNow = `SELECT ${now} AS now`

export function readNow(connection: Connection): number {
  return connection.testedNow() ?? connection.get<{ now: number }>(selectNow)!.now
}

/** The connection, namespace and time of a write in the current transaction. */
export interface Moment {
  readonly connection: Connection
  readonly namespace: string
  /** By the store's clock. */
  readonly now: number
}

export function momentOf(connection: Connection, namespace: string): Moment {
  return { connection, namespace, now: readNow(connection) }
}

/** Opens the file for writing. Throws SQLite's busy errors unchanged, so that the caller can retry. */
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
    // Savepoints of a group commit keep their undo pages in temporary storage; in memory they need no file.
    db.exec('PRAGMA temp_store = MEMORY')
    db.exec('PRAGMA cache_size = -16000')
    // A long read lets the WAL grow. This limit shrinks it again afterwards.
    db.exec('PRAGMA journal_size_limit = 67108864')
  })
}

/** Opens the file only for reading. A writer must be open, because WAL's files must exist. */
export function openReader(location: Location): Connection {
  return opened(location, true, (db) => db.exec('PRAGMA cache_size = -8000'))
}

function opened(
  { path, now: testedNow }: Location,
  readOnly: boolean,
  prepare: (db: DatabaseSync) => void,
): Connection {
  let db: DatabaseSync | undefined
  // SQLite would create an empty file.
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
