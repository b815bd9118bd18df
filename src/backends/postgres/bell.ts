import { createHash } from 'node:crypto'
import { Client } from 'pg'
import type { BackendBell } from '../backend.ts'
import type { Connections, Statement } from './connection.ts'

/**
 * A bell over LISTEN and NOTIFY. A ring is told in this process at once, and to others by a statement of its own, never
 * inside a transaction that writes: NOTIFY there would make all commits of the database queue up. Rings of a topic
 * within 2 ms become one.
 *
 * There is one connection that listens, opened when somebody first does. When it is lost it is opened anew, and once it
 * listens again everybody is called: what was rung in between was not heard. That it still works is asked every 15 s.
 */
export class PostgresBell implements BackendBell {
  readonly #connections: Connections
  readonly #channel: string
  readonly #warnings: string[]
  readonly #listeners = new Map<string, Set<() => void>>()
  /** Topics told within the last moments: whether they were rung again since. */
  readonly #recent = new Map<string, { again: boolean; timer: NodeJS.Timeout }>()
  #line: Client | undefined
  #retry: NodeJS.Timeout | undefined
  #ping: NodeJS.Timeout | undefined
  #failures = 0
  #connecting = false
  #closed = false
  /** Its own rings come back by LISTEN; they were told already. */
  readonly #self = createHash('sha256').update(crypto.randomUUID()).digest('hex').slice(0, 12)

  constructor(connections: Connections, channel: string, warnings: string[]) {
    this.#connections = connections
    this.#channel = channel
    this.#warnings = warnings
  }

  ring(topic: string): void {
    if (this.#closed) return
    this.#tell(topic)
    const recent = this.#recent.get(topic)
    if (recent) {
      recent.again = true
      return
    }
    this.#notify(topic)
  }

  listen(topics: readonly string[], heard: () => void): () => void {
    const mine = () => heard()
    for (const topic of topics) {
      const others = this.#listeners.get(topic)
      if (others) others.add(mine)
      else this.#listeners.set(topic, new Set([mine]))
    }
    if (topics.length > 0) this.#open()
    return () => {
      for (const topic of topics) {
        const others = this.#listeners.get(topic)
        others?.delete(mine)
        if (others?.size === 0) this.#listeners.delete(topic)
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    clearInterval(this.#ping)
    for (const { timer } of this.#recent.values()) clearTimeout(timer)
    this.#recent.clear()
    this.#listeners.clear()
    const line = this.#line
    this.#line = undefined
    if (line) hangUp(line)
  }

  #tell(topic: string): void {
    for (const heard of [...(this.#listeners.get(topic) ?? [])]) heard()
  }

  #notify(topic: string): void {
    const timer = setTimeout(() => {
      const again = this.#recent.get(topic)?.again
      this.#recent.delete(topic)
      if (again && !this.#closed) this.#notify(topic)
    }, mergeMs)
    timer.unref()
    this.#recent.set(topic, { again: false, timer })
    // A ring may be lost: whoever depends on it polls.
    this.#connections.run(notify, [this.#channel, `${this.#self} ${topic}`]).catch(() => undefined)
  }

  #open(): void {
    if (this.#line !== undefined || this.#connecting || this.#closed || this.#retry !== undefined) return
    this.#connecting = true
    this.#connect()
      .catch(() => this.#tryLater())
      .finally(() => {
        this.#connecting = false
      })
  }

  async #connect(): Promise<void> {
    const line = new Client({ ...this.#connections.target.config, query_timeout: 10_000 })
    const lost = () => {
      if (this.#line !== line) return
      this.#line = undefined
      clearInterval(this.#ping)
      hangUp(line)
      this.#tryLater()
    }
    line.on('error', lost)
    line.on('end', lost)
    line.on('notification', ({ payload = '' }) => {
      const space = payload.indexOf(' ')
      if (payload.slice(0, space) !== this.#self) this.#tell(payload.slice(space + 1))
    })
    try {
      await line.connect()
      await line.query(`LISTEN ${this.#channel}`)
    } catch (error) {
      hangUp(line)
      throw error
    }
    if (this.#closed)
      return hangUp(line)
      // Listening must not keep a process alive that has nothing else to do.
    ;(line as unknown as { unref(): void }).unref()
    this.#line = line
    this.#ping = setInterval(() => void line.query('SELECT 1').catch(lost), 15_000)
    this.#ping.unref()
    const isAgain = this.#failures > 0
    this.#failures = 0
    if (isAgain) for (const topic of [...this.#listeners.keys()]) this.#tell(topic)
  }

  #tryLater(): void {
    if (this.#closed) return
    this.#failures++
    if (this.#failures === 3) {
      this.#warnings.push(
        'Postgres does not let this process LISTEN (a pooler in transaction mode does not); jobs are found by polling.',
      )
    }
    const ms = Math.min(100 * 2 ** (this.#failures - 1), 10_000) * (0.75 + Math.random() / 2)
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#open()
    }, ms)
    this.#retry.unref()
  }
}

/** Longer, and a producer that adds a job every few milliseconds would wait for the end of it each time. */
const mergeMs = 2

const notify: Statement = { name: 'sb_notify', text: 'SELECT pg_notify($1, $2)' }

/** Not politely: a connection that does not answer would keep us waiting. */
function hangUp(line: Client): void {
  line.end().catch(() => undefined)
  ;(line as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}

/** The channel's name: NOTIFY reaches every schema of a database, so schema and namespace are in it. */
export function channelOf(schema: string, namespace: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([schema, namespace]))
    .digest('hex')
  return `signalbox_${hash.slice(0, 40)}`
}
