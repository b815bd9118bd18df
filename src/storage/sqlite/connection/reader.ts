import type { Connection } from './connection.ts'
import { busy, closed, explain, isBusy, isInputOutput } from './failures.ts'

/**
 * Reads on a separate connection: in WAL mode they see the last commit and never wait for a writer. Each read is a
 * transaction, so it sees one state of the store, whatever other processes commit between its statements. In rare
 * moments (recovery, the last checkpoint) the file is locked for readers too; reads then retry like writes.
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

  /** Reads without a retry. Throws SQLite's errors unchanged. */
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
 * The pause before the next try while another process has the file. Pauses are random, so that processes do not keep
 * colliding. They are short, because a busy neighbour frees the lock only for microseconds between two commits, and a
 * rare try would never succeed.
 */
export function pauseMs(tries: number): number {
  return (0.5 + Math.random()) * Math.min(8, 1 + tries / 4)
}

/**
 * Runs `work` at once, or as soon as the file is not busy. Throws `store_busy` after `deadline` (of performance.now).
 * It calls `check` before each retry; `check` may throw.
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

/** Retries `work` after a pause while it returns undefined because the file is busy. Otherwise as above. */
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
