import { SignalboxError } from '../../../core/errors.ts'
import type { TransactOptions } from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'
import { busy, closed, explain, isBusy, isInputOutput } from '../connection/failures.ts'
import { pauseMs } from '../connection/reader.ts'
import { commitName, elsewhereName, transactionName, type WriteQueueMeter } from './write-queue-meter.ts'

/**
 * SQLite has one writer. The writes of a process wait here for their turn: in JavaScript, never inside SQLite.
 *
 *     write ──▶ │ renewals │ writes and holds in order of arrival │ ──▶ one turn at a time
 *
 * A turn is either one `hold`, which keeps the write queue during its awaits and has a separate connection, or all
 * writes before the next hold. Those writes share one transaction and one fsync, each in its own savepoint, and are
 * answered after the commit. A write is synchronous, so this process never locks the file during an await. If another
 * process holds the file, the event loop tries the turn again until each caller's deadline. A write may then run twice,
 * so its only effect must be on its connection.
 *
 * A turn of writes begins in a new round of the event loop, so all writes of one round share a commit. A hold shares
 * its turn with no other write. It begins as soon as the previous hold ends, but only for a few milliseconds in a row,
 * so that turns never starve timers and sockets.
 */
export interface WriteQueueOptions {
  /** Opens the shared connection of writes. Called again after a disk error. */
  open(): Connection
  /** Called after the file was locked. The notifier uses it to tell commits of other processes from our own. */
  began?(connection: Connection): void
  /** How long a write may wait. @default 5_000 */
  readonly deadlineMs?: number
  /** How long a hold may wait. Each earlier hold has its own timeout. @default 30_000 */
  readonly holdDeadlineMs?: number
  /** Measures how long calls waited and which turns ran. @default no meter */
  readonly meter?: WriteQueueMeter | undefined
}

export interface WriteOptions {
  /** Goes before all other writes: the renewal of leases. */
  readonly urgent?: boolean
  /** The name of the operation, for metrics. @default 'write' */
  readonly name?: string
  /** The start of its wait, if it waited elsewhere before. @default now */
  readonly begunAt?: number | undefined
}

/** Called when a write ends. Neither function may throw. */
export interface WriteCaller {
  resolve(value: unknown): void
  reject(error: unknown): void
}

interface Write {
  readonly deadline: number
  readonly caller: WriteCaller
  readonly name: string
  readonly begunAt: number
  readonly work: (connection: Connection) => unknown
}
interface Hold {
  readonly deadline: number
  readonly caller: Pick<WriteCaller, 'reject'>
  /** Runs the hold to its end. Never rejects. */
  readonly run: () => Promise<void>
}

/** After this time a group commit takes no more writes, so that one turn does not block the event loop for long. */
const sliceMs = 20
/** For this long, holds may follow each other without a round of the event loop. */
const roundMs = 5

export class WriteQueue {
  readonly #options: WriteQueueOptions
  readonly #urgent: Write[] = []
  readonly #ordinary: (Write | Hold)[] = []
  readonly #closing = new AbortController()
  #connection: Connection | undefined
  /** The time since which another process has the file. */
  #elsewhereSince: number | undefined
  #turning: Promise<void> | undefined
  #watch: ReturnType<typeof setTimeout> | undefined

  constructor(options: WriteQueueOptions) {
    this.#options = options
  }

  /** Runs `work` in a transaction of the shared connection, and resolves after the commit. */
  write<Value>(work: (connection: Connection) => Value, options: WriteOptions = {}): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.submit(work, { resolve, reject } as WriteCaller, options)
    })
  }

  /** Like `write`, but answers through callbacks. */
  submit(work: (connection: Connection) => unknown, caller: WriteCaller, options: WriteOptions = {}): void {
    if (this.#closing.signal.aborted) {
      caller.reject(closed())
      return
    }
    const now = performance.now()
    const deadline = now + (this.#options.deadlineMs ?? 5_000)
    const { urgent, name = 'write', begunAt = now } = options
    const queue = urgent ? this.#urgent : this.#ordinary
    queue.push({ work, caller, deadline, name, begunAt })
    this.#wake()
  }

  /**
   * Blocks all other turns from the call of `work` until it settles. `closing` tells `work` to hurry. `work` locks the
   * file itself. When `signal` aborts, a waiting hold leaves the write queue. For a running hold the write queue calls
   * `interrupt`, so that `work` need not listen to the signal too.
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
        else this.#refuse(hold, signal!.reason)
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
        caller: { reject: fail },
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
      this.#ordinary.push(hold)
      this.#wake()
    })
  }

  /** Aborts when the write queue closes. A running hold must then end soon. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Runs the waiting writes, refuses waiting holds and ends the running one, then closes the connection. */
  async close(): Promise<void> {
    if (!this.#closing.signal.aborted) {
      this.#closing.abort(closed())
      for (const waiter of this.#ordinary.filter(isHold)) this.#refuse(waiter, closed())
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
        this.#meterOtherProcess(tries > 0)
      } else {
        this.#ordinary.shift()
        await first.run()
        tries = 0
      }
    }
    this.#turning = undefined
  }

  #meterOtherProcess(isElsewhere: boolean): void {
    const since = this.#elsewhereSince
    if (isElsewhere === (since !== undefined)) return
    const now = performance.now()
    this.#elsewhereSince = isElsewhere ? now : undefined
    if (since !== undefined) this.#options.meter?.turn(elsewhereName, since, since, now)
  }

  #first(): Write | Hold | undefined {
    return this.#urgent[0] ?? this.#ordinary[0]
  }

  /** Runs one transaction for all writes at the front. False: another process has the file. */
  #writeGroup(): boolean {
    let connection: Connection
    try {
      // Writes to a moved or deleted file would succeed, but be lost.
      if (this.#connection?.isInPlace() === false) this.#drop()
      connection = this.#connection ??= this.#options.open()
      connection.begin()
    } catch (error) {
      if (isBusy(error)) return false
      // The file cannot be opened or locked. Fail the current calls; later calls try again.
      this.#drop()
      for (const write of this.#takeGroup()) write.caller.reject(explain(error))
      return true
    }
    this.#options.began?.(connection)

    const group = this.#takeGroup()
    // In most groups no write fails, and savepoints cost as much as the writes. So the group runs without them first.
    // If a write fails, the group is undone and runs again, each write in its own savepoint.
    return this.#runGroup(connection, group, false) ?? this.#runGroup(connection, group, true) ?? true
  }

  /** Undefined: the group was undone and should run with savepoints. No caller has its answer yet. */
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
      for (const write of group.slice(0, taken)) write.caller.reject(explain(error))
      return true
    }
    this.#putBack(group.slice(taken))
    for (const answer of answers) answer()
    return true
  }

  /** Takes the writes that can share one commit: urgent writes, and writes before the first hold. */
  #takeGroup(): Write[] {
    const end = this.#ordinary.findIndex(isHold)
    const writes = this.#ordinary.splice(0, end < 0 ? this.#ordinary.length : end)
    return [...this.#urgent.splice(0), ...(writes as Write[])]
  }

  /**
   * Returns writes to the ordinary queue. Urgent writes keep their position, because they were taken from its front.
   */
  #putBack(writes: readonly Write[]): void {
    this.#ordinary.unshift(...writes)
  }

  #undo(connection: Connection, error: unknown): void {
    try {
      connection.rollback()
      // After a failed fsync the state of the operating system's cache is unknown: the next turn opens the file again.
      if (isInputOutput(error)) this.#drop()
    } catch {
      this.#drop()
    }
  }

  #drop(): void {
    this.#connection?.abandon()
    this.#connection = undefined
  }

  /** One timer for all waiting calls, and none while turns follow each other. It is set once per deadline. */
  #expireLater(): void {
    const waiters = [...this.#urgent, ...this.#ordinary]
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
    // A running hold keeps the process alive. A timer on an empty write queue must not.
    this.#watch.unref()
  }

  #expire(): void {
    const now = performance.now()
    for (const waiter of [...this.#urgent, ...this.#ordinary]) {
      if (waiter.deadline <= now) this.#refuse(waiter, busy())
    }
  }

  #refuse(waiter: Write | Hold, error: unknown): void {
    for (const queue of [this.#urgent, this.#ordinary] as (Write | Hold)[][]) {
      const at = queue.indexOf(waiter)
      if (at >= 0) queue.splice(at, 1)
    }
    waiter.caller.reject(error)
  }
}

function isHold(waiter: Write | Hold | undefined): waiter is Hold {
  return waiter !== undefined && 'run' in waiter
}

/** Runs one write, alone or with others. Returns the function that tells its caller after the commit. */
function runWrite(connection: Connection, { work, caller }: Write, beside: boolean): () => void {
  if (beside) connection.run('SAVEPOINT signalbox_write')
  try {
    const value = work(connection)
    if (beside) connection.run('RELEASE signalbox_write')
    return () => caller.resolve(value)
  } catch (error) {
    // Alone, busy, or rolled back by SQLite itself: the whole turn is undone.
    if (!beside || isBusy(error) || !connection.db.isTransaction) throw error
    connection.run('ROLLBACK TO signalbox_write')
    connection.run('RELEASE signalbox_write')
    return () => caller.reject(explain(error))
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
