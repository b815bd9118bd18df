import { createHash, randomBytes } from 'node:crypto'
import type { BackendNotifier } from '../backend.ts'
import { Listeners } from '../listeners.ts'
import { requireTransaction } from './connection/caller-transaction.ts'
import type { Connections } from './connection/connection.ts'
import type { Statement } from './connection/statement.ts'
import { ListeningConnection } from './listening-connection.ts'

/**
 * Notifiers over LISTEN and NOTIFY, one for each namespace; no other namespace hears its wake-ups. Listeners of this
 * process hear a wake-up at once. Other processes get it by a separate statement, which may follow right behind the
 * write. Inside the writing transaction it would arrive sooner, but Postgres commits such transactions one by one. So a
 * process spends at most a quarter of its time in them. Wake-ups of a topic within 2 ms become one.
 *
 * Each namespace has a channel. One connection listens to all of them. It listens to a channel while this process has
 * listeners, and a little longer: a caller that listens separately for each of many waits misses nothing between two
 * waits.
 */
export class PostgresNotifiers {
  readonly #connections: Connections
  readonly #schema: string
  readonly #listening: ListeningConnection
  /** Whether a listening connection gets notifications: behind a pooler it may not. */
  readonly #hears: boolean
  /** By channel and topic. */
  readonly #listeners = new Listeners()
  readonly #channels = new Map<string, Channel>()
  /** Topics that were woken in the last 2 ms, or that a write in flight will wake. */
  readonly #recent = new Map<string, Recent>()
  /** From this time on, a wake-up may be part of its write. */
  #joinsWritesFrom = 0
  #closed = false
  /** The name of this process. Its own wake-ups come back by LISTEN, and its listeners know them already. */
  readonly #self = randomBytes(6).toString('hex')

  constructor(connections: Connections, schema: string, hears: boolean, warnings: string[]) {
    this.#connections = connections
    this.#hears = hears
    this.#schema = schema
    this.#listening = new ListeningConnection(connections.target.config, {
      heard: (channel, payload) => {
        const space = payload.indexOf(' ')
        if (payload.slice(0, space) !== this.#self)
          this.#listeners.wake(topicKey(channel, payload.slice(space + 1)))
      },
      // A new listener probably checked the store before LISTEN took effect, and missed the wake-ups between the two.
      listens: (channels) => {
        for (const channel of channels) this.#listeners.wakeAll(topicKey(channel, ''))
      },
      failed: (times) => {
        if (times !== 3) return
        warnings.push(
          'Postgres does not let this process LISTEN (a pooler in transaction mode does not); jobs are found by polling.',
        )
      },
    })
  }

  /** The notifier of a namespace. All notifiers of one namespace are equal. */
  within(namespace: string): PostgresNotifier {
    const channel = channelOf(this.#schema, namespace)
    return {
      carryWakeUp: (topic) => this.#carryWakeUp(channel, topic),
      wake: (topic) => this.#wake(channel, topic),
      wakeAtCommit: (tx, topics) => this.#wakeAtCommit(channel, tx, topics),
      listen: (topics, heard) => this.#listen(channel, topics, heard),
      hearsOthers: () => this.#hears && this.#listening.isOpen,
    }
  }

  close(): void {
    this.#closed = true
    this.#listening.close()
    for (const { timer } of this.#recent.values()) clearTimeout(timer)
    for (const { timer } of this.#channels.values()) clearTimeout(timer)
    this.#recent.clear()
    this.#channels.clear()
    this.#listeners.clear()
  }

  #wake(channel: string, topic: string): void {
    if (this.#closed) return
    const key = topicKey(channel, topic)
    this.#listeners.wake(key)
    const recent = this.#recent.get(key)
    if (recent?.skipsNext) recent.skipsNext = false
    else if (recent) recent.isWokenAgain = true
    else this.#notify(channel, topic, key)
  }

  /**
   * Lets a write send the wake-up of its topic, within the write or right behind it. The writer then wakes as usual,
   * and that wake-up reaches only this process. Undefined when the topic was woken a moment ago: its next wake-up comes
   * when that time is over.
   */
  #carryWakeUp(channel: string, topic: string): CarriedWakeUp | undefined {
    const key = topicKey(channel, topic)
    if (this.#closed || this.#recent.has(key)) return undefined
    const recent: Recent = { isWokenAgain: false, skipsNext: true, timer: undefined }
    this.#recent.set(key, recent)
    const beganAt = performance.now()
    const mayJoinWrite = beganAt >= this.#joinsWritesFrom
    if (mayJoinWrite) this.#joinsWritesFrom = beganAt + longMs
    const ended = (isSent: boolean) => {
      const now = performance.now()
      if (mayJoinWrite) this.#joinsWritesFrom = now + restFactor * (now - beganAt)
      // `ended` may be called twice.
      if (this.#closed || this.#recent.get(key) !== recent || recent.timer !== undefined) return
      this.#recent.delete(key)
      // Send a separate wake-up if another one came meanwhile, perhaps for a later change, or if the write did not send
      // the wake-up that was merged into it.
      if (recent.isWokenAgain || (!isSent && !recent.skipsNext)) this.#notify(channel, topic, key)
      else if (isSent) this.#merge(channel, topic, key, recent)
    }
    return { statement: notify, values: [channel, `${this.#self} ${topic}`], mayJoinWrite, ended }
  }

  /** Sent without the name of a process: the listeners of this process must get it too, and only after the commit. */
  async #wakeAtCommit(channel: string, tx: unknown, topics: readonly string[]): Promise<void> {
    const client = await requireTransaction(tx)
    await client.query(notifyAll, [channel, topics.map((topic) => `${noProcess} ${topic}`)])
  }

  #listen(channel: string, topics: readonly string[], heard: () => void): () => void {
    if (this.#closed || topics.length === 0) return () => undefined
    const stop = this.#listeners.listen(
      topics.map((topic) => topicKey(channel, topic)),
      heard,
    )
    this.#open(channel)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      stop()
      this.#removeListener(channel)
    }
  }

  #open(channel: string): void {
    const open = this.#channels.get(channel) ?? { listeners: 0, timer: undefined }
    clearTimeout(open.timer)
    open.listeners++
    this.#channels.set(channel, open)
    this.#listening.want(channel)
  }

  #removeListener(channel: string): void {
    const open = this.#channels.get(channel)
    if (open === undefined || --open.listeners > 0) return
    open.timer = setTimeout(() => {
      this.#channels.delete(channel)
      this.#listening.drop(channel)
    }, lingerMs)
    open.timer.unref()
  }

  #notify(channel: string, topic: string, key: string): void {
    this.#merge(channel, topic, key, { isWokenAgain: false, skipsNext: false, timer: undefined })
    // A lost wake-up is harmless: listeners poll as well.
    this.#connections.run(notify, [channel, `${this.#self} ${topic}`]).catch(() => undefined)
  }

  /** Merges the wake-ups of the topic in the next 2 ms into one, which is sent at their end. */
  #merge(channel: string, topic: string, key: string, recent: Recent): void {
    recent.timer = setTimeout(() => {
      this.#recent.delete(key)
      if (recent.isWokenAgain && !this.#closed) this.#notify(channel, topic, key)
    }, mergeMs)
    recent.timer.unref()
    this.#recent.set(key, recent)
  }
}

/** The notifier of a namespace. A write may carry its wake-ups. */
export interface PostgresNotifier extends BackendNotifier {
  carryWakeUp(topic: string): CarriedWakeUp | undefined
}

/** A wake-up that goes out with a write, as part of it or right behind it. */
export interface CarriedWakeUp {
  readonly statement: Statement
  readonly values: unknown[]
  /** Whether it may be part of the write: such writes took little of this process's time lately. */
  readonly mayJoinWrite: boolean
  /** The write has ended: with the wake-up, or without. */
  ended(isSent: boolean): void
}

interface Recent {
  /** The topic was woken since. */
  isWokenAgain: boolean
  /** The write carries the next wake-up, so the notifier does not send it again. */
  skipsNext: boolean
  /** Undefined while the write is in flight. */
  timer: NodeJS.Timeout | undefined
}

interface Channel {
  listeners: number
  /** Stops listening, some time after the last listener left. */
  timer: NodeJS.Timeout | undefined
}

/** If this were longer, a producer that adds a job every few milliseconds would wait for it each time. */
const mergeMs = 2
/** After a write with a wake-up, wake-ups follow behind their writes for this many times its duration. */
const restFactor = 3
/** A write that takes longer than this may never end. */
const longMs = 1_000
/** How long the process listens to a channel after the last listener left. */
const lingerMs = 10_000

const noProcess = '-'
// As text, because Prisma cannot read an answer of the type void.
const notifyAll = 'SELECT pg_notify($1, topic)::text FROM unnest($2::text[]) topic'
const notify: Statement = { name: 'sb_notify', text: 'SELECT pg_notify($1, $2)' }

/** The key of a topic in a channel. No channel name has a space. */
function topicKey(channel: string, topic: string): string {
  return `${channel} ${topic}`
}

/** The channel's name: NOTIFY reaches every schema of a database, so schema and namespace are in it. */
function channelOf(schema: string, namespace: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([schema, namespace]))
    .digest('hex')
  return `signalbox_${hash.slice(0, 40)}`
}
