import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

export interface TokenWatchOptions {
  readonly clock: Clock
  /** Those of these tokens that still count, by one call of the store; throws when that cannot be known now. */
  readonly live: (ids: readonly string[]) => Promise<ReadonlySet<string>>
  /** How long between two rounds. */
  readonly everyMs: number
  /** How long a watched token is believed while the store cannot be asked. */
  readonly unsureMs: number
  /** Called for every token that ended, before what waits with it is ended. Must not throw. */
  readonly onEnded?: (id: string) => void
}

type Ended = (reason: SignalboxError) => void

interface Watched {
  readonly watchers: Set<{ readonly ended: Ended }>
  /** Since when it is watched. */
  readonly since: number
  /** When the last answer that it is live was asked for. */
  confirmedAt: number
  /** A request used it since the last round. */
  isUsed: boolean
}

/**
 * Ends what waits with a token when the token no longer counts: claims, long polls, streams and sockets. One timer serves
 * them all. Each round asks about all tokens with one call of the store: about those that something waits with, and
 * those that a request used since the round before. Without either there is no timer.
 *
 * While the store cannot be asked the waits go on, but not for long: after `unsureMs` they end, for a revocation might be
 * what cannot be read.
 */
export class TokenWatch {
  readonly #options: TokenWatchOptions
  readonly #watched = new Map<string, Watched>()
  #timer: unknown
  #isRound = false
  #closed = false

  constructor(options: TokenWatchOptions) {
    this.#options = options
  }

  /** Calls `ended` once when the token ends, until the returned function is called. */
  watch(id: string, ended: Ended): () => void {
    const watched = this.#enter(id)
    const watcher = { ended }
    watched.watchers.add(watcher)
    return () => void watched.watchers.delete(watcher)
  }

  /** A request came with this token, which was live at `askedAt`: the next round asks about it. */
  use(id: string, askedAt: number): void {
    const watched = this.#enter(id)
    watched.isUsed = true
    if (askedAt > watched.confirmedAt) watched.confirmedAt = askedAt
  }

  /** When the last answer that this token is live was asked for; long ago where there is none. */
  confirmedAt(id: string): number {
    return this.#watched.get(id)?.confirmedAt ?? Number.NEGATIVE_INFINITY
  }

  /** Asks about this token now instead of at the next round; until then nothing is known of it. */
  async check(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    if (watched === undefined) return
    watched.confirmedAt = Number.NEGATIVE_INFINITY
    await this.#ask([[id, watched]])
  }

  /** Ends what waits with a token that is known to have ended; the store is not asked. */
  end(id: string): void {
    const watched = this.#watched.get(id)
    if (watched !== undefined) this.#end(id, watched, tokenEnded())
  }

  /** How many tokens are watched. */
  get size(): number {
    return this.#watched.size
  }

  /** Stops watching; no callback is called any more. */
  close(): void {
    this.#closed = true
    this.#watched.clear()
    if (this.#timer !== undefined) this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #enter(id: string): Watched {
    const known = this.#watched.get(id)
    if (known !== undefined) return known
    const since = this.#options.clock.now()
    const watched = {
      watchers: new Set<never>(),
      since,
      confirmedAt: Number.NEGATIVE_INFINITY,
      isUsed: false,
    }
    if (this.#closed) return watched
    this.#watched.set(id, watched)
    this.#arm()
    return watched
  }

  /** The timer is not cleared when the last request ends: the next round finds nothing to ask about and sets none. */
  #arm(): void {
    if (this.#timer !== undefined || this.#isRound || this.#closed || this.#watched.size === 0) return
    this.#timer = this.#options.clock.setTimeout(() => void this.#round(), this.#options.everyMs)
    // What waits keeps the process alive; the timer need not.
    const { unref } = this.#timer as { unref?: () => void }
    unref?.call(this.#timer)
  }

  /** Never rejects. The next round is set when this one has ended, so none overlap. */
  async #round(): Promise<void> {
    this.#timer = undefined
    this.#isRound = true
    for (const [id, watched] of this.#watched) {
      if (watched.watchers.size === 0 && !watched.isUsed) this.#watched.delete(id)
      watched.isUsed = false
    }
    if (this.#watched.size > 0) await this.#ask([...this.#watched])
    this.#isRound = false
    this.#arm()
  }

  async #ask(asked: readonly (readonly [string, Watched])[]): Promise<void> {
    const { clock, live, unsureMs } = this.#options
    const askedAt = clock.now()
    try {
      const lives = await live(asked.map(([id]) => id))
      for (const [id, watched] of asked) {
        if (lives.has(id)) watched.confirmedAt = askedAt
        else this.#end(id, watched, tokenEnded())
      }
    } catch (error) {
      const now = clock.now()
      for (const [id, watched] of asked) {
        const { since, confirmedAt } = watched
        if (now - Math.max(since, confirmedAt) >= unsureMs) this.#end(id, watched, cannotKnow(error))
      }
    }
  }

  #end(id: string, watched: Watched, reason: SignalboxError): void {
    if (this.#closed) return
    if (this.#watched.get(id) === watched) this.#watched.delete(id)
    this.#options.onEnded?.(id)
    const watchers = [...watched.watchers]
    watched.watchers.clear()
    for (const { ended } of watchers) {
      try {
        ended(reason)
      } catch (error) {
        // One that fails to end must not keep the others open.
        console.error('A request or stream of an ended token could not be ended:', error)
      }
    }
  }
}

function tokenEnded(): SignalboxError {
  return new SignalboxError(
    'unauthorized',
    'The token was revoked or has expired, so this wait ended. Use another token.',
    { details: { authenticate: true } },
  )
}

function cannotKnow(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'The store does not answer, so the server cannot check whether the token is still valid. Try again later.',
    { cause },
  )
}
