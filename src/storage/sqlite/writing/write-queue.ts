import { SignalboxError } from '../../../core/errors.ts'
import type { TransactOptions } from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'
import { busy, closed, explain, isBusy, isInputOutput } from '../connection/failures.ts'
import { pauseMs } from '../connection/reader.ts'
import { commitName, elsewhereName, transactionName, type WriteQueueMeter } from './write-queue-meter.ts'

/**
 * SQLite has one writer. Here a process's writes wait for their turn to be it: in JavaScript, never inside SQLite.
 *
 *     write ──▶ │ renewals │ writes, holds in the order they came │ ──▶ one turn at a time
 *
 * A turn is either one `hold`, which keeps the write queue during its awaits and has a separate connection, or all
 * writes in front of the next hold. Those writes share one transaction and one fsync, each in its own savepoint, and
 * are answered after the commit. A write is synchronous, so this process never locks the file during an await. When
 * another process holds the file, the event loop tries the turn again until each caller's deadline. A write may then
 * run twice, so its only effect must be on its connection.
 *
 * A turn of writes begins in a new round of the event loop, so all writes of one round share a commit. A hold shares
 * with no other write and begins as soon as the one before it ends, but only for a few milliseconds in a row, so that
 * turns never starve timers and sockets.
 */
export interface WriteQueueOptions {
  /** Opens the connection that writes share; called again after a fault of the disk. */
  open(): Connection
  /** Told when the file's lock was taken: the notifier tells others' commits from ours by it. */
  began?(connection: Connection): void
  /** How long a write may wait. @default 5_000 */
  readonly deadlineMs?: number
  /** How long a hold may wait; each hold in front of it has its own time-out. @default 30_000 */
  readonly holdDeadlineMs?: number
  /** Learns who waited how long, and who had which turn. @default no meter */
  readonly meter?: WriteQueueMeter | undefined
}

export interface WriteOptions {
  /** Goes before all that is not: the renewal of leases. */
  readonly urgent?: boolean
  /** The name of the operation, for metrics. @default 'write' */
  readonly name?: string
  /** Since when it waits, where that was before it came here. @default now */
  readonly begunAt?: number | undefined
}

/** Who is told how a write ended; neither may throw. */
export interface Asker {
  resolve(value: unknown): void
  reject(error: unknown): void
}

interface Write {
  readonly deadline: number
  readonly asker: Asker
  readonly name: string
  readonly begunAt: number
  readonly work: (connection: Connection) => unknown
}
interface Hold {
  readonly deadline: number
  readonly asker: Pick<Asker, 'reject'>
  /** Runs it to its end; never rejects. */
  readonly run: () => Promise<void>
}

/** A group commit takes up no more writes after this long, so that one turn does not stop the event loop for long. */
const sliceMs = 20
/** Holds follow one another without a look at the event loop for this long. */
const roundMs = 5

export class WriteQueue {
  readonly #options: WriteQueueOptions
  readonly #urgent: Write[] = []
  readonly #line: (Write | Hold)[] = []
  readonly #closing = new AbortController()
  #connection: Connection | undefined
  /** Since when another process has the file. */
  #elsewhereSince: number | undefined
  #turning: Promise<void> | undefined
  #watch: ReturnType<typeof setTimeout> | undefined

  constructor(options: WriteQueueOptions) {
    this.#options = options
  }

  /** Does `work` in a transaction of the shared connection, and answers once it is committed. */
  write<Value>(work: (connection: Connection) => Value, options: WriteOptions = {}): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.submit(work, { resolve, reject } as Asker, options)
    })
  }

  /** Like `write`, but answers through a callback. */
  submit(work: (connection: Connection) => unknown, asker: Asker, options: WriteOptions = {}): void {
    if (this.#closing.signal.aborted) {
      asker.reject(closed())
      return
    }
    const now = performance.now()
    const deadline = now + (this.#options.deadlineMs ?? 5_000)
    const { urgent, name = 'write', begunAt = now } = options
    const line = urgent ? this.#urgent : this.#line
    line.push({ work, asker, deadline, name, begunAt })
    this.#wake()
  }

  /**
   * Blocks all other turns from the call of `work` until it settles; `closing` says when it should hurry.
   * `work` takes the file's lock itself. When `signal` aborts, a waiting hold leaves the write queue; for a running one
   * `interrupt` is called, so that `work` need not listen to the signal too.
   */
  hold<Value>(
    work: () => Promise<Value>,
    signal?: TransactOptions['signal'],
    interrupt?: (reason: unknown) => void,
  ): Promise<Value> {
    return new Promise((resolve, reject) => {
      if (this.#closing.signal.aborted) return reject(closed())
      if (signal?.aborted) return reject(signal.reason)
      let isInside = false
      const aborted = () => {
        if (isInside) interrupt?.(signal!.reason)
        else this.#turnAway(hold, signal!.reason)
      }
      // Stop listening before the answer: the caller may abort its signal later for other reasons.
      const over = () => signal?.removeEventListener('abort', aborted)
      const fail = (error: unknown) => {
        over()
        reject(error)
      }
      const begunAt = performance.now()
      const hold: Hold = {
        deadline: begunAt + (this.#options.holdDeadlineMs ?? 30_000),
        asker: { reject: fail },
        run: () => {
          isInside = true
          const enteredAt = performance.now()
          const left = () => this.#options.meter?.turn(transactionName, begunAt, enteredAt, performance.now())
          return work().then(
            (value) => {
              left()
              over()
              resolve(value)
            },
            (error) => {
              left()
              fail(error)
            },
          )
        },
      }
      signal?.addEventListener('abort', aborted)
      this.#line.push(hold)
      this.#wake()
    })
  }

  /** Aborts when the write queue closes; a running hold must end soon. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Writes what waits, turns holds away and ends the one that is in, then closes the connection. */
  async close(): Promise<void> {
    if (!this.#closing.signal.aborted) {
      this.#closing.abort(closed())
      for (const waiter of this.#line.filter(isHold)) this.#turnAway(waiter, closed())
    }
    await this.#turning
    clearTimeout(this.#watch)
    this.#drop()
  }

  #wake(): void {
    this.#turning ??= this.#turns()
    if (this.#watch === undefined) this.#expireLater()
  }

  async #turns(): Promise<void> {
    let tries = 0
    let roundEnd = 0
    while (true) {
      if (tries > 0) {
        await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)))
        this.#expire()
      } else if (!isHold(this.#first()) || performance.now() >= roundEnd) {
        await nextRound()
        roundEnd = performance.now() + roundMs
      }
      const first = this.#first()
      if (first === undefined) break
      if (!isHold(first)) {
        tries = this.#writeGroup() ? 0 : tries + 1
        this.#noteElsewhere(tries > 0)
      } else {
        this.#line.shift()
        await first.run()
        tries = 0
      }
    }
    this.#turning = undefined
  }

  #noteElsewhere(isElsewhere: boolean): void {
    const since = this.#elsewhereSince
    if (isElsewhere === (since !== undefined)) return
    const now = performance.now()
    this.#elsewhereSince = isElsewhere ? now : undefined
    if (since !== undefined) this.#options.meter?.turn(elsewhereName, since, since, now)
  }

  #first(): Write | Hold | undefined {
    return this.#urgent[0] ?? this.#line[0]
  }

  /** One transaction for all the writes in front; false when another process has the file. */
  #writeGroup(): boolean {
    let connection: Connection
    try {
      // A file that was moved or deleted takes writes as if nothing had happened, and keeps them from everybody.
      if (this.#connection?.isInPlace() === false) this.#drop()
      connection = this.#connection ??= this.#options.open()
      connection.begin()
    } catch (error) {
      if (isBusy(error)) return false
      // The file cannot be opened or locked at all: those who ask now are told, those who come later try again.
      this.#drop()
      for (const write of this.#takeGroup()) write.asker.reject(explain(error))
      return true
    }
    this.#options.began?.(connection)

    const group = this.#takeGroup()
    // In most groups no write fails, and savepoints cost as much as the writes. So the group runs without them first.
    // If a write fails, the group is undone and runs again, each write in its own savepoint.
    return this.#runGroup(connection, group, false) ?? this.#runGroup(connection, group, true) ?? true
  }

  /** Undefined when the group was undone and should run with savepoints; no caller has its answer then. */
  #runGroup(connection: Connection, group: readonly Write[], apart: boolean): boolean | undefined {
    const answers: (() => void)[] = []
    const { meter } = this.#options
    let now = performance.now()
    const sliceEnd = now + sliceMs
    let taken = 0
    try {
      if (apart) connection.begin()
      for (const write of group) {
        if (taken > 0 && now > sliceEnd) break
        taken++
        answers.push(runWrite(connection, write, apart))
        const enteredAt = now
        now = performance.now()
        meter?.turn(write.name, write.begunAt, enteredAt, now)
        if (!connection.db.isTransaction) throw gaveUp()
      }
      connection.commit()
      meter?.turn(commitName, now, now, performance.now())
    } catch (error) {
      this.#undo(connection, error)
      if (isBusy(error)) {
        this.#putBack(group)
        return false
      }
      const isAlone = group.length === 1
      if (!apart && !isAlone && taken > 0 && connection.db.isOpen && !isInputOutput(error)) return undefined
      this.#putBack(group.slice(taken))
      for (const write of group.slice(0, taken)) write.asker.reject(explain(error))
      return true
    }
    this.#putBack(group.slice(taken))
    for (const answer of answers) answer()
    return true
  }

  /** Takes the writes that may share one commit: the urgent ones, and those in front of the first hold. */
  #takeGroup(): Write[] {
    const end = this.#line.findIndex(isHold)
    const writes = this.#line.splice(0, end < 0 ? this.#line.length : end)
    return [...this.#urgent.splice(0), ...(writes as Write[])]
  }

  /** Urgent ones that go back this way keep their place, for the ordinary line is where they were taken first. */
  #putBack(writes: readonly Write[]): void {
    this.#line.unshift(...writes)
  }

  #undo(connection: Connection, error: unknown): void {
    try {
      connection.rollback()
      // After a failed fsync the state of the system's cache is unknown: the next turn starts from the file.
      if (isInputOutput(error)) this.#drop()
    } catch {
      this.#drop()
    }
  }

  #drop(): void {
    this.#connection?.abandon()
    this.#connection = undefined
  }

  /** One timer for all who wait, and none while turns follow one another: it is armed once per deadline. */
  #expireLater(): void {
    const waiters = [...this.#urgent, ...this.#line]
    if (waiters.length === 0) return
    const first = Math.min(...waiters.map(({ deadline }) => deadline))
    this.#watch = setTimeout(
      () => {
        this.#watch = undefined
        this.#expire()
        this.#expireLater()
      },
      Math.max(5, first - performance.now() + 1),
    )
    // A running hold keeps the process alive; the timer over an empty write queue need not.
    this.#watch.unref()
  }

  #expire(): void {
    const now = performance.now()
    for (const waiter of [...this.#urgent, ...this.#line]) {
      if (waiter.deadline <= now) this.#turnAway(waiter, busy())
    }
  }

  #turnAway(waiter: Write | Hold, error: unknown): void {
    for (const line of [this.#urgent, this.#line] as (Write | Hold)[][]) {
      const at = line.indexOf(waiter)
      if (at >= 0) line.splice(at, 1)
    }
    waiter.asker.reject(error)
  }
}

function isHold(waiter: Write | Hold | undefined): waiter is Hold {
  return waiter !== undefined && 'run' in waiter
}

/** Runs one write, alone or beside others; answers how to tell its caller once the commit is made. */
function runWrite(connection: Connection, { work, asker }: Write, beside: boolean): () => void {
  if (beside) connection.run('SAVEPOINT signalbox_write')
  try {
    const value = work(connection)
    if (beside) connection.run('RELEASE signalbox_write')
    return () => asker.resolve(value)
  } catch (error) {
    // Alone, or busy, or rolled back by SQLite itself: then the whole turn is undone.
    if (!beside || isBusy(error) || !connection.db.isTransaction) throw error
    connection.run('ROLLBACK TO signalbox_write')
    connection.run('RELEASE signalbox_write')
    return () => asker.reject(explain(error))
  }
}

function gaveUp(): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'SQLite rolled the transaction back by itself; this call wrote nothing.',
  )
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
