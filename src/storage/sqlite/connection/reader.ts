import type { Connection } from './connection.ts'
import { closed, explain, isInputOutput } from './failures.ts'
import { whenFree } from './retry.ts'

/**
 * Reads have a connection of their own: in WAL mode they see the last commit and never wait for a writer. Each read is
 * in a transaction, so each sees one state of the store, whatever other processes commit between its statements. The
 * rare moments in which the file is locked for readers too (recovery, the last checkpoint) are tried again like a writer's.
 */
export class Reader {
  readonly #open: () => Connection
  #connection: Connection | undefined
  #closed = false

  constructor(open: () => Connection) {
    this.#open = open
  }

  async read<Value>(work: (connection: Connection) => Value): Promise<Value> {
    try {
      return await whenFree(() => this.readNow(work), performance.now() + 5_000)
    } catch (error) {
      throw explain(error)
    }
  }

  /** The same without a second try; faults come as SQLite gives them. */
  readNow<Value>(work: (connection: Connection) => Value): Value {
    if (this.#closed) throw closed()
    if (this.#connection?.isInPlace() === false) this.#drop()
    this.#connection ??= this.#open()
    try {
      this.#connection.run('BEGIN')
      const value = work(this.#connection)
      this.#connection.commit()
      return value
    } catch (error) {
      this.#giveUp()
      if (isInputOutput(error)) this.#drop()
      throw error
    }
  }

  close(): void {
    this.#closed = true
    this.#drop()
  }

  #giveUp(): void {
    try {
      this.#connection?.rollback()
    } catch {
      this.#drop()
    }
  }

  #drop(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.close()
  }
}
