import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

export interface TokenWatchOptions {
  readonly clock: Clock
  /** Whether the token with this id still counts; throws when that cannot be known now. */
  readonly isLive: (id: string) => Promise<boolean>
  /** How long between two rounds. */
  readonly everyMs: number
  /** How long a watched token is believed while the store cannot be asked. */
  readonly unsureMs: number
  /** How many are asked about at a time. */
  readonly concurrency: number
}

type Ended = (reason: SignalboxError) => void

interface Watched {
  readonly watchers: Set<{ readonly ended: Ended }>
  /** When its last good answer was asked for. */
  liveAt: number
}

/**
 * Tells the holders of open streams when their token no longer counts. One timer serves them all, and each token is
 * read once a round, however many streams it has; without streams there is no timer. While the store cannot be asked
 * the streams stay, but not for long: after `unsureMs` they end, for a revocation might be what cannot be read.
 */
export class TokenWatch {
  readonly #options: TokenWatchOptions
  readonly #watched = new Map<string, Watched>()
  #timer: unknown
  #closed = false

  constructor(options: TokenWatchOptions) {
    this.#options = options
  }

  /** Calls `ended` once when the token ends, until the returned function is called. */
  watch(id: string, ended: Ended): () => void {
    let watched = this.#watched.get(id)
    if (!watched) {
      watched = { watchers: new Set(), liveAt: this.#options.clock.now() }
      this.#watched.set(id, watched)
    }
    const watcher = { ended }
    watched.watchers.add(watcher)
    this.#arm()
    return () => {
      watched.watchers.delete(watcher)
      // By then another may stand under this id, with watchers of its own.
      if (watched.watchers.size === 0 && this.#watched.get(id) === watched) this.#watched.delete(id)
      if (this.#watched.size === 0) this.#disarm()
    }
  }

  /** Asks about this token now instead of at the next round. */
  async check(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    if (!watched) return
    const askedAt = this.#options.clock.now()
    try {
      if (await this.#options.isLive(id)) watched.liveAt = askedAt
      else this.#end(id, watched, tokenEnded())
    } catch (error) {
      if (this.#options.clock.now() - watched.liveAt < this.#options.unsureMs) return
      this.#end(id, watched, cannotKnow(error))
    }
  }

  /** How many tokens are watched. */
  get size(): number {
    return this.#watched.size
  }

  /** Watches nothing any more and tells nobody. */
  close(): void {
    this.#closed = true
    this.#watched.clear()
    this.#disarm()
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#closed || this.#watched.size === 0) return
    this.#timer = this.#options.clock.setTimeout(() => void this.#round(), this.#options.everyMs)
    // Whoever watches has something open that keeps the process; the timer need not.
    const { unref } = this.#timer as { unref?: () => void }
    unref?.call(this.#timer)
  }

  #disarm(): void {
    if (this.#timer !== undefined) this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Never rejects: `check` catches what can fail. The next round is set when this one has ended, so none overlap. */
  async #round(): Promise<void> {
    const ids = [...this.#watched.keys()]
    const askOn = async () => {
      for (let id = ids.pop(); id !== undefined && !this.#closed; id = ids.pop()) await this.check(id)
    }
    await Promise.all(Array.from({ length: this.#options.concurrency }, askOn))
    this.#timer = undefined
    this.#arm()
  }

  #end(id: string, watched: Watched, reason: SignalboxError): void {
    if (this.#closed) return
    if (this.#watched.get(id) === watched) this.#watched.delete(id)
    const watchers = [...watched.watchers]
    watched.watchers.clear()
    for (const { ended } of watchers) {
      try {
        ended(reason)
      } catch (error) {
        // One stream that fails to close must not keep the others open.
        console.error('A stream whose token ended could not be told:', error)
      }
    }
  }
}

function tokenEnded(): SignalboxError {
  return new SignalboxError(
    'unauthorized',
    'The token of this stream was revoked or has expired. Come back with another.',
    { details: { authenticate: true } },
  )
}

function cannotKnow(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'Whether the token of this stream still counts cannot be known: the store does not answer. Come back a little later.',
    { cause },
  )
}
