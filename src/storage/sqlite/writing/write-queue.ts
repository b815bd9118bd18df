import { SignalboxError } from '../../../core/errors.ts'
import type { TransactOptions } from '../../../jobs/index.ts'
import type { Connection } from '../connection/connection.ts'
import { busy, closed, explain, isBusy, isInputOutput } from '../connection/failures.ts'
import { pauseMs } from '../connection/retry.ts'
import { Ahead } from './ahead.ts'
import { commitName, elsewhereName, type GateMeter, transactionName } from './write-queue-meter.ts'
import type { WriteCall } from './writes.ts'

/**
 * SQLite has one writer, and this is where a process's writes wait to be it: in JavaScript, never inside SQLite.
 *
 *     write ──▶ │ renewals │ writes, holds in the order they came │ ──▶ one turn at a time
 *
 * A turn is either one `hold`, which keeps the gate over its awaits with a connection of its own, or all the writes
 * that wait in front of the next hold: they share one transaction and one fsync, each in a savepoint of its own, and
 * are answered when it has been committed. A write is synchronous, so nothing of ours ever keeps the file locked over
 * an await. When another process has the file, the turn is tried again from the event loop, until the deadline of each
 * who waits; a write may be run again then, so it must have no effect but on its connection.
 *
 * A turn of writes begins in a new round of the event loop, so what was asked for in one round shares a commit. A hold
 * shares with nobody and begins as soon as the one before it is out; but only for some milliseconds on end, so that
 * no stream of turns ever starves timers and sockets.
 */
export interface GateOptions {
  /** Opens the connection that writes share; called again after a fault of the disk. */
  open(): Connection
  /** Told when the file's lock was taken: the notifier tells others' commits from ours by it. */
  began?(connection: Connection): void
  /** How long a write may wait. @default 5_000 */
  readonly deadlineMs?: number
  /** How long a hold may stand in line; each in front of it is bounded by its own time-out. @default 30_000 */
  readonly holdDeadlineMs?: number
  /** Learns who waited how long, and who had which turn. @default nobody does */
  readonly meter?: GateMeter | undefined
}

export interface WriteOptions {
  /** Goes before all that is not: the renewal of leases. */
  readonly urgent?: boolean
  /** What it is, for whoever measures. @default 'write' */
  readonly name?: string
  /** Since when it waits, where that was before it came here. @default now */
  readonly begunAt?: number | undefined
  /** What is asked for, where those in front may do it with theirs. */
  readonly call?: WriteCall
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
  readonly call: WriteCall | undefined
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

export class Gate {
  readonly #options: GateOptions
  readonly #urgent: Write[] = []
  readonly #line: (Write | Hold)[] = []
  readonly #closing = new AbortController()
  #connection: Connection | undefined
  /** Since when another process has the file. */
  #elsewhereSince: number | undefined
  #turning: Promise<void> | undefined
  #watch: ReturnType<typeof setTimeout> | undefined

  constructor(options: GateOptions) {
    this.#options = options
  }

  /** Does `work` in a transaction of the shared connection, and answers once it is committed. */
  write<Value>(work: (connection: Connection) => Value, options: WriteOptions = {}): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.submit(work, { resolve, reject } as Asker, options)
    })
  }

  /** The same for whoever is told by being called. */
  submit(work: (connection: Connection) => unknown, asker: Asker, options: WriteOptions = {}): void {
    if (this.#closing.signal.aborted) {
      asker.reject(closed())
      return
    }
    const now = performance.now()
    const deadline = now + (this.#options.deadlineMs ?? 5_000)
    const { urgent, name = 'write', begunAt = now, call } = options
    const line = urgent ? this.#urgent : this.#line
    line.push({ work, asker, deadline, name, begunAt, call })
    this.#wake()
  }

  /**
   * Keeps everybody else out from the moment `work` is called until it settles; `closing` says when it should hurry.
   * Taking the file's lock is its own affair. When `signal` aborts, it leaves the line; once inside, `interrupt` is
   * called instead, so that whoever holds need not listen to the signal too.
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
      // Before it is answered: who has been told the end may abort for reasons of its own.
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

  /** Aborts when the gate closes: whoever holds it is to leave. */
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
    // Most groups have nobody in them that fails, and savepoints cost as much as the writes themselves. So they are set
    // only when somebody did fail: then all is undone and run again, each in a savepoint of its own.
    return this.#runGroup(connection, group, false) ?? this.#runGroup(connection, group, true) ?? true
  }

  /** Undefined when it was undone and should be run with savepoints; nobody has been answered then. */
  #runGroup(connection: Connection, group: readonly Write[], apart: boolean): boolean | undefined {
    const answers: (() => void)[] = []
    const { meter } = this.#options
    let now = performance.now()
    const sliceEnd = now + sliceMs
    let taken = 0
    try {
      if (apart) connection.begin()
      const { turn } = connection
      if (!apart && group.length > 1) turn.ahead = new Ahead(group.map(({ call }) => call))
      for (const write of group) {
        if (taken > 0 && now > sliceEnd && !turn.ahead.owes) break
        taken++
        turn.ahead.step()
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

  /** Takes from the line what may share one commit: the urgent, and the writes in front of the first hold. */
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
      // After a failed fsync nobody knows what the system's cache holds: the next turn starts from the file.
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
    // Whoever is in the gate meanwhile keeps the process alive; a watch over an empty line need not.
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
    'SQLite rolled the transaction back by itself; nothing of this call was kept.',
  )
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
