import { type Connection, type ConnectionOptions, createConnection } from 'mysql2/promise'
import { SignalboxError } from '../../../core/errors.ts'
import { PoolMeter } from '../../pool-meter.ts'
import { isLost } from './failures.ts'

/**
 * A connection pool that sets up each session before its first use. Unlike in the driver's pool, every wait has a
 * deadline: for a free connection, for connecting, and for each answer. A connection that missed a deadline is
 * destroyed, never reused, because its server may still be working on the old statement.
 */
export class Pool {
  readonly #options: ConnectionOptions
  readonly #session: readonly string[]
  readonly #size: number
  readonly #meter: PoolMeter
  readonly #idle: Link[] = []
  readonly #waiting: Waiter[] = []
  readonly #links = new Set<Link>()
  #open = 0
  #closed = false

  constructor(
    options: ConnectionOptions,
    session: readonly string[],
    size: number,
    meter: PoolMeter = new PoolMeter(),
  ) {
    this.#meter = meter
    this.#options = options
    this.#session = session
    this.#size = size
  }

  requireOpen(): void {
    if (this.#closed) throw closedError()
  }

  /** Takes a connection exclusively. Return it with `release` or `discard`. */
  async acquire(deadline: number, doing = 'use'): Promise<Link> {
    const ticket = this.#meter.begin(doing)
    try {
      const link = await this.#acquire(deadline)
      this.#meter.enter(ticket)
      link.ticket = ticket
      return link
    } catch (error) {
      this.#meter.leave(ticket)
      throw error
    }
  }

  async #acquire(deadline: number): Promise<Link> {
    this.requireOpen()
    for (let link = this.#idle.pop(); link !== undefined; link = this.#idle.pop()) {
      if (!link.lost) return link
      this.discard(link)
    }
    if (this.#open < this.#size) return this.#connect(deadline)
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        resolve,
        reject,
        deadline,
        timer: setTimeout(
          () => {
            this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
            reject(
              new SignalboxError(
                'store_busy',
                `All ${this.#size} connections to MariaDB were in use. Raise \`pool\` in its URL, or do slow work outside transactions.`,
              ),
            )
          },
          Math.max(1, deadline - performance.now()),
        ),
      }
      this.#waiting.push(waiter)
    })
  }

  async #connect(deadline: number): Promise<Link> {
    this.#open++
    let raw: Connection | undefined
    try {
      const connectTimeout = Math.max(1, Math.min(5_000, Math.ceil(deadline - performance.now())))
      raw = await createConnection({ ...this.#options, connectTimeout })
      const link = new Link(raw)
      for (const statement of this.#session) await link.ask(statement, [], deadline)
      if (this.#closed) throw closedError()
      this.#links.add(link)
      return link
    } catch (error) {
      raw?.destroy()
      this.#open--
      this.#serveNext()
      throw error
    }
  }

  release(link: Link): void {
    this.#meter.leave(link.ticket)
    if (link.lost || this.#closed) {
      this.discard(link)
      return
    }
    const waiter = this.#waiting.shift()
    if (waiter === undefined) {
      this.#idle.push(link)
    } else {
      clearTimeout(waiter.timer)
      waiter.resolve(link)
    }
  }

  /** Closes a connection that is lost or in an unknown state. */
  discard(link: Link): void {
    this.#meter.leave(link.ticket)
    link.destroy()
    if (!this.#links.delete(link)) return
    this.#open--
    this.#serveNext()
  }

  /** A connection slot became free: the longest waiter gets it. */
  #serveNext(): void {
    const waiter = this.#waiting.shift()
    if (waiter === undefined) return
    clearTimeout(waiter.timer)
    if (this.#closed) waiter.reject(closedError())
    else this.#acquire(waiter.deadline).then(waiter.resolve, waiter.reject)
  }

  /** Closes idle connections at once, and others when they are returned. */
  async close(): Promise<void> {
    this.#closed = true
    for (const waiter of this.#waiting.splice(0)) {
      clearTimeout(waiter.timer)
      waiter.reject(closedError())
    }
    for (const link of this.#idle.splice(0)) this.discard(link)
  }
}

interface Waiter {
  readonly resolve: (link: Link) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
  readonly timer: NodeJS.Timeout
}

/** One connection. `lost`: it can no longer be used. */
export class Link {
  readonly raw: Connection
  lost = false
  /** Whether the packet that ended its last transaction set the savepoint that begins the next one. */
  begun = false
  /** The meter's ticket of the current user. */
  ticket = 0

  constructor(raw: Connection) {
    this.raw = raw
    // Without a listener, a lost server would end the process.
    raw.on('error', () => {
      this.lost = true
    })
    raw.on('end', () => {
      this.lost = true
    })
  }

  /** Sends one packet and returns its answer, by the deadline (of `performance.now()`). */
  ask<Answer = unknown>(sql: string, values: readonly unknown[], deadline: number): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.destroy()
          reject(new SignalboxError('store_unavailable', 'MariaDB did not answer in time.'))
        },
        Math.max(1, deadline - performance.now()),
      )
      this.raw.query(sql, values as unknown[]).then(
        ([answer]) => {
          clearTimeout(timer)
          resolve(answer as Answer)
        },
        (error) => {
          clearTimeout(timer)
          if (isLost(error)) this.destroy()
          reject(error)
        },
      )
    })
  }

  destroy(): void {
    this.lost = true
    this.raw.destroy()
  }
}

function closedError(): SignalboxError {
  return new SignalboxError('closed', 'This backend was closed.')
}
