import { Batcher } from '../core/batcher.ts'
import { setNewest } from '../core/newest-entries.ts'
import { asStoreTrouble, type FreshOptions, inTime } from './fresh-answer.ts'
import type { PresentedSecret } from './secret.ts'
import type { Token, TokenRecord, TokenStore } from './token-store.ts'
import type { TokenWatch } from './token-watch.ts'
import { judgePresented } from './tokens.ts'

export interface VerifiedTokensOptions extends FreshOptions {
  /** The most tokens that are remembered, valid and wrong ones apart. */
  readonly maxEntries: number
  /** How long a wrong secret is known to be wrong. */
  readonly wrongMs: number
  /** Asks the store about all tokens in use with one call. What it confirmed counts as an answer here, too. */
  readonly watch?: Pick<TokenWatch, 'use' | 'confirmedAt'>
}

/**
 * The secrets that were presented lately, by their digest, so that not every request asks the store. A valid one counts
 * until its answer is too old. A wrong one stays wrong: a secret is random, so none is presented before its token
 * exists. Both kinds are bounded, each by itself, so wrong secrets push out no valid ones.
 */
export class VerifiedTokens {
  readonly #lookups: TokenLookups
  readonly #options: VerifiedTokensOptions
  /** In the order in which they were last found valid. */
  readonly #valid = new Map<string, Entry>()
  /** Until when each counts as wrong, in that order. */
  readonly #wrong = new Map<string, number>()
  /** Those the store is being asked about; no more than there are requests. */
  readonly #asking = new Map<string, Asking>()

  constructor(store: Pick<TokenStore, 'find'>, options: VerifiedTokensOptions) {
    this.#lookups = new TokenLookups(store, options)
    this.#options = options
  }

  /** The live token of this secret, or undefined. Throws `store_unavailable` when that cannot be known. */
  async find(presented: PresentedSecret): Promise<Token | undefined> {
    const { id, digest } = presented
    // What has not the form of a token's secret has no record that could be looked up.
    if (id === undefined) return judgePresented(presented, undefined)
    const known = this.#valid.get(digest)
    if (known !== undefined && this.#isFresh(known)) {
      this.#options.watch?.use(id, known.askedAt)
      return known.token
    }
    if (this.#isWrong(digest)) return undefined
    const asking = this.#asking.get(digest) ?? this.#ask(id, presented)
    return asking.answer
  }

  /** Asks the store again when this token is presented next. */
  forget(id: string): void {
    for (const [digest, entry] of this.#valid) if (entry.token.id === id) this.#valid.delete(digest)
    for (const [digest, asking] of this.#asking) if (asking.id === id) this.#asking.delete(digest)
  }

  /** How many are remembered as valid or being asked about. */
  get size(): number {
    return this.#valid.size + this.#asking.size
  }

  /** How many are remembered as wrong. */
  get wrongSize(): number {
    return this.#wrong.size
  }

  #isFresh({ token, askedAt }: Entry): boolean {
    const { clock, maxAgeMs, watch } = this.#options
    const now = clock.now()
    return (
      now - askedAt < maxAgeMs || now - (watch?.confirmedAt(token.id) ?? Number.NEGATIVE_INFINITY) < maxAgeMs
    )
  }

  #isWrong(digest: string): boolean {
    const until = this.#wrong.get(digest)
    return until !== undefined && until > this.#options.clock.now()
  }

  #ask(id: string, presented: PresentedSecret): Asking {
    const { digest } = presented
    const askedAt = this.#options.clock.now()
    const asking: Asking = { id, answer: this.#look(id, presented) }
    this.#asking.set(digest, asking)
    const isCurrent = () => {
      const current = this.#asking.get(digest)
      return current === asking
    }
    asking.answer.then(
      (token) => {
        // What was asked before the token changed does not count after it.
        if (!isCurrent()) return
        this.#asking.delete(digest)
        if (token === undefined) this.#rememberWrong(digest)
        else this.#rememberValid(digest, { token, askedAt })
      },
      () => {
        if (isCurrent()) this.#asking.delete(digest)
      },
    )
    return asking
  }

  async #look(id: string, presented: PresentedSecret): Promise<Token | undefined> {
    try {
      return judgePresented(presented, await this.#lookups.find(id))
    } catch (error) {
      throw asStoreTrouble(error)
    }
  }

  #rememberValid(digest: string, entry: Entry): void {
    setNewest(this.#valid, digest, entry, this.#options.maxEntries)
    this.#options.watch?.use(entry.token.id, entry.askedAt)
  }

  #rememberWrong(digest: string): void {
    const { clock, wrongMs, maxEntries } = this.#options
    const now = clock.now()
    this.#valid.delete(digest)
    for (const [oldest, until] of this.#wrong) {
      if (until > now) break
      this.#wrong.delete(oldest)
    }
    setNewest(this.#wrong, digest, now + wrongMs, maxEntries)
  }
}

interface Entry {
  readonly token: Token
  /** When the answer was asked for. */
  readonly askedAt: number
}

interface Asking {
  readonly id: string
  readonly answer: Promise<Token | undefined>
}

/**
 * Looks tokens up by id. Look-ups that come while calls are in flight share the next call, in the order they came. So a
 * flood of unknown tokens costs the store two calls at a time, and a valid token among them waits for one call or two.
 */
export class TokenLookups {
  readonly #options: Pick<FreshOptions, 'clock' | 'deadlineMs'>
  readonly #batcher: Batcher<string, TokenRecord | undefined>

  constructor(store: Pick<TokenStore, 'find'>, options: Pick<FreshOptions, 'clock' | 'deadlineMs'>) {
    this.#options = options
    this.#batcher = new Batcher({
      maxItems: 500,
      maxInFlight: 2,
      start: queueMicrotask,
      mergesEqual: true,
      // A call that hangs is given up at the deadline, so that it does not hold up the next one.
      async run(ids) {
        const records = await inTime(() => store.find(ids), options)
        const byId = new Map(records.map((record) => [record.id, record]))
        return ids.map((id) => byId.get(id))
      },
    })
  }

  /** The token with this id, read after this call. Rejects when the store does not answer within the deadline. */
  find(id: string): Promise<TokenRecord | undefined> {
    return inTime(() => this.#batcher.add(id), this.#options)
  }
}
