import type { Connection } from './connection.ts'
import { busy, closed, explain, isBusy, isInputOutput } from './failures.ts'

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

/**
 * Trying again while another process has the file. The tries are spread at random so that processes do not meet in
 * step, and stay close together: the lock is free for some microseconds between two commits of a busy neighbour, and
 * who asks seldom never finds it so.
 */
export function pauseMs(tries: number): number {
  return (0.5 + Math.random()) * Math.min(8, 1 + tries / 4)
}

/**
 * Does `work` at once, or as soon as the file is not busy; `store_busy` when `deadline` (of performance.now) passes.
 * `check` is called before each further try and may throw.
 */
export async function whenFree<Value>(
  work: () => Value,
  deadline: number,
  check?: () => void,
): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (performance.now() >= deadline) throw busy(error)
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)))
    check?.()
  }
}

/** Tries again, after a pause, what answers undefined while the file is busy; the rest as above. */
export async function untilFree<Value>(
  work: () => Value | undefined,
  waitMs: number,
  check?: () => void,
): Promise<Value> {
  const deadline = performance.now() + waitMs
  for (let tries = 0; performance.now() < deadline; tries++) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)))
    check?.()
    const value = work()
    if (value !== undefined) return value
  }
  throw busy()
}
