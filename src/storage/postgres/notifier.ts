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
 * Each namespace has a channel. One connection listens for all of them. It listens to a channel while this process has
 * listeners, and a little longer: a caller that listens anew for each of many waits misses nothing in between.
 */
export class PostgresNotifiers {
  readonly #connections: Connections
  readonly #schema: string
  readonly #listening: ListeningConnection
  /** Whether a connection that listens hears: behind a pooler it may not. */
  readonly #hears: boolean
  /** By channel and topic. */
  readonly #listeners = new Listeners()
  readonly #channels = new Map<string, Channel>()
  /** Topics woken within the last moments, or about to be woken by a riding write. */
  readonly #recent = new Map<string, Recent>()
  /** From when on a wake-up may be part of what it is about. */
  #rareFrom = 0
  #closed = false
  /** Its own wake-ups come back by LISTEN; they were told already. */
  readonly #self = randomBytes(6).toString('hex')

  constructor(connections: Connections, schema: string, hears: boolean, warnings: string[]) {
    this.#connections = connections
    this.#hears = hears
    this.#schema = schema
    this.#listening = new ListeningConnection(connections.target.config, {
      heard: (channel, payload) => {
        const space = payload.indexOf(' ')
        if (payload.slice(0, space) !== this.#self)
          this.#listeners.wake(placeOf(channel, payload.slice(space + 1)))
      },
      // A new listener has most likely checked before the LISTEN took effect; it did not hear wake-ups between the two.
      listens: (channels) => {
        for (const channel of channels) this.#listeners.wakeAll(placeOf(channel, ''))
      },
      failed: (times) => {
        if (times !== 3) return
        warnings.push(
          'Postgres does not let this process LISTEN (a pooler in transaction mode does not); jobs are found by polling.',
        )
      },
    })
  }

  /** The notifier of a namespace; all that are asked for are the same one. */
  within(namespace: string): PostgresNotifier {
    const channel = channelOf(this.#schema, namespace)
    return {
      ride: (topic) => this.#ride(channel, topic),
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
    const place = placeOf(channel, topic)
    this.#listeners.wake(place)
    const recent = this.#recent.get(place)
    if (recent?.isOwed) recent.isOwed = false
    else if (recent) recent.again = true
    else this.#notify(channel, topic, place)
  }

  /**
   * Lets a write send the wake-up of its topic, within the write or right behind it. The writer then wakes as usual, and
   * that wake-up reaches only this process. Undefined when the topic was woken a moment ago: its next wake-up comes when
   * that time is over.
   */
  #ride(channel: string, topic: string): Ride | undefined {
    const place = placeOf(channel, topic)
    if (this.#closed || this.#recent.has(place)) return undefined
    const recent: Recent = { again: false, isOwed: true, timer: undefined }
    this.#recent.set(place, recent)
    const beganAt = performance.now()
    const isRare = beganAt >= this.#rareFrom
    if (isRare) this.#rareFrom = beganAt + longMs
    const over = (isSent: boolean) => {
      const now = performance.now()
      if (isRare) this.#rareFrom = now + restFactor * (now - beganAt)
      // It may have been over before.
      if (this.#closed || this.#recent.get(place) !== recent || recent.timer !== undefined) return
      this.#recent.delete(place)
      // Another wake-up came during this one, perhaps for a later change; or it was merged into this one, which was not sent.
      if (recent.again || (!isSent && !recent.isOwed)) this.#notify(channel, topic, place)
      else if (isSent) this.#merge(channel, topic, place, recent)
    }
    return { statement: notify, values: [channel, `${this.#self} ${topic}`], isRare, over }
  }

  /** Sent under no process's name: the listeners of this process must hear it too, and only after the commit. */
  async #wakeAtCommit(channel: string, tx: unknown, topics: readonly string[]): Promise<void> {
    const client = await requireTransaction(tx)
    await client.query(notifyAll, [channel, topics.map((topic) => `${noProcess} ${topic}`)])
  }

  #listen(channel: string, topics: readonly string[], heard: () => void): () => void {
    if (this.#closed || topics.length === 0) return () => undefined
    const stop = this.#listeners.listen(
      topics.map((topic) => placeOf(channel, topic)),
      heard,
    )
    this.#open(channel)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      stop()
      this.#leave(channel)
    }
  }

  #open(channel: string): void {
    const open = this.#channels.get(channel) ?? { listeners: 0, timer: undefined }
    clearTimeout(open.timer)
    open.listeners++
    this.#channels.set(channel, open)
    this.#listening.want(channel)
  }

  #leave(channel: string): void {
    const open = this.#channels.get(channel)
    if (open === undefined || --open.listeners > 0) return
    open.timer = setTimeout(() => {
      this.#channels.delete(channel)
      this.#listening.drop(channel)
    }, lingerMs)
    open.timer.unref()
  }

  #notify(channel: string, topic: string, place: string): void {
    this.#merge(channel, topic, place, { again: false, isOwed: false, timer: undefined })
    // A lost wake-up is harmless: listeners poll as well.
    this.#connections.run(notify, [channel, `${this.#self} ${topic}`]).catch(() => undefined)
  }

  /** What is woken within the next moments is told when they are over. */
  #merge(channel: string, topic: string, place: string, recent: Recent): void {
    recent.timer = setTimeout(() => {
      this.#recent.delete(place)
      if (recent.again && !this.#closed) this.#notify(channel, topic, place)
    }, mergeMs)
    recent.timer.unref()
    this.#recent.set(place, recent)
  }
}

/** The notifier of a namespace, which may also be woken with a write. */
export interface PostgresNotifier extends BackendNotifier {
  ride(topic: string): Ride | undefined
}

/** A wake-up to be sent with a write, as part of it or right behind it. */
export interface Ride {
  readonly statement: Statement
  readonly values: unknown[]
  /** It may be part of the write: writes that send a wake-up have taken little of this process's time lately. */
  readonly isRare: boolean
  /** The write has ended: with the wake-up, or without. */
  over(isSent: boolean): void
}

interface Recent {
  /** It was woken since. */
  again: boolean
  /** The next wake-up is the one that rode. */
  isOwed: boolean
  /** None while it rides. */
  timer: NodeJS.Timeout | undefined
}

interface Channel {
  listeners: number
  /** Stops listening, some time after the last listener left. */
  timer: NodeJS.Timeout | undefined
}

/** Longer, and a producer that adds a job every few milliseconds would wait for the end of it each time. */
const mergeMs = 2
/** After a write with a wake-up, wake-ups follow behind their writes for this many times its duration. */
const restFactor = 3
/** A write that takes longer than this may never end. */
const longMs = 1_000
/** How long a channel is listened to after the last listener left. */
const lingerMs = 10_000

const noProcess = '-'
// As text, for Prisma reads no answer of the type void.
const notifyAll = 'SELECT pg_notify($1, topic)::text FROM unnest($2::text[]) topic'
const notify: Statement = { name: 'sb_notify', text: 'SELECT pg_notify($1, $2)' }

/** A topic of a channel; no channel has a space in it. */
function placeOf(channel: string, topic: string): string {
  return `${channel} ${topic}`
}

/** The channel's name: NOTIFY reaches every schema of a database, so schema and namespace are in it. */
function channelOf(schema: string, namespace: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([schema, namespace]))
    .digest('hex')
  return `signalbox_${hash.slice(0, 40)}`
}
