import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

export interface TokenWatchOptions {
  readonly clock: Clock
  /** Returns which of these tokens are live, with one call of the store. Throws if the store does not answer. */
  readonly live: (ids: readonly string[]) => Promise<ReadonlySet<string>>
  /** The time between two rounds. */
  readonly everyMs: number
  /** How long a token counts as live while the store does not answer. */
  readonly unsureMs: number
  /** Called for every token that ended, before its waits end. Must not throw. */
  readonly onEnded?: (id: string) => void
}

type Ended = (reason: SignalboxError) => void

interface Watched {
  readonly watchers: Set<{ readonly ended: Ended }>
  /** When the watch began. */
  readonly since: number
  /** The time of the request whose answer last confirmed the token. */
  confirmedAt: number
  /** Whether a request used it since the last round. */
  isUsed: boolean
}

/**
 * Ends the waits of a token that was revoked or expired: claims, long polls, streams and sockets. One timer serves all
 * tokens. Each round checks tokens with one call of the store: those with waits, and those that a request used since the
 * previous round. Without such tokens there is no timer.
 *
 * While the store does not answer, the waits continue for `unsureMs`. Then they end, because the token may be revoked.
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

  /** Notes a request with this token, which was live at `askedAt`: the next round checks the token. */
  use(id: string, askedAt: number): void {
    const watched = this.#enter(id)
    watched.isUsed = true
    if (askedAt > watched.confirmedAt) watched.confirmedAt = askedAt
  }

  /** The time of the request whose answer last confirmed the token; -Infinity: none. */
  confirmedAt(id: string): number {
    return this.#watched.get(id)?.confirmedAt ?? Number.NEGATIVE_INFINITY
  }

  /** Checks this token now, not in the next round. Until the answer, the token is not confirmed. */
  async check(id: string): Promise<void> {
    const watched = this.#watched.get(id)
    if (watched === undefined) return
    watched.confirmedAt = Number.NEGATIVE_INFINITY
    await this.#ask([[id, watched]])
  }

  /** Ends the waits of a token that has ended, without a call of the store. */
  end(id: string): void {
    const watched = this.#watched.get(id)
    if (watched !== undefined) this.#end(id, watched, tokenEnded())
  }

  /** The number of watched tokens. */
  get size(): number {
    return this.#watched.size
  }

  /** Stops the watch. No callback is called afterwards. */
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

  /** The end of the last request does not clear the timer: the next round finds no token and sets no other. */
  #arm(): void {
    if (this.#timer !== undefined || this.#isRound || this.#closed || this.#watched.size === 0) return
    this.#timer = this.#options.clock.setTimeout(() => void this.#round(), this.#options.everyMs)
    // The timer need not keep the process alive.
    const { unref } = this.#timer as { unref?: () => void }
    unref?.call(this.#timer)
  }

  /** Never rejects. The next round begins only after this one, so rounds do not overlap. */
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
        // A callback that throws must not keep other waits open.
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
