import { Batcher } from '../core/batcher.ts'
import { setNewest } from '../core/newest-entries.ts'
import { type FreshOptions, inTime, toStoreError } from './fresh-answer.ts'
import type { PresentedSecret } from './secret.ts'
import type { Token, TokenRecord, TokenStore } from './token-store.ts'
import type { TokenWatch } from './token-watch.ts'
import { judgePresented } from './tokens.ts'

export interface VerifiedTokensOptions extends FreshOptions {
  /** The most remembered secrets: of the valid ones, and separately of the wrong ones. */
  readonly maxEntries: number
  /** How long a wrong secret is remembered. */
  readonly wrongMs: number
  /** Checks all tokens in use with one call of the store. Its confirmations count as answers here too. */
  readonly watch?: Pick<TokenWatch, 'use' | 'confirmedAt'>
}

/**
 * Remembers presented secrets by their digest, so that not every request reads the store. A valid secret is remembered
 * until its answer is too old. A wrong secret stays wrong: secrets are random, so no client presents one before its token
 * exists. Each kind has its own limit, so wrong secrets displace no valid ones.
 */
export class VerifiedTokens {
  readonly #lookups: TokenLookups
  readonly #options: VerifiedTokensOptions
  /** In the order of their last answers. */
  readonly #valid = new Map<string, Entry>()
  /** The end of each wrong secret, in that order. */
  readonly #wrong = new Map<string, number>()
  /** Look-ups in flight; not more than requests. */
  readonly #lookupsInFlight = new Map<string, LookupInFlight>()

  constructor(store: Pick<TokenStore, 'find'>, options: VerifiedTokensOptions) {
    this.#lookups = new TokenLookups(store, options)
    this.#options = options
  }

  /** Returns the live token of this secret, or undefined. Throws `store_unavailable` if the store does not answer. */
  async find(presented: PresentedSecret): Promise<Token | undefined> {
    const { id, digest } = presented
    // Text without the form of a secret has no record in the store.
    if (id === undefined) return judgePresented(presented, undefined)
    const known = this.#valid.get(digest)
    if (known !== undefined && this.#isFresh(known)) {
      this.#options.watch?.use(id, known.askedAt)
      return known.token
    }
    if (this.#isWrong(digest)) return undefined
    const lookup = this.#lookupsInFlight.get(digest) ?? this.#lookUp(id, presented)
    return lookup.answer
  }

  /** Reads the store again for the next request with this token. */
  forget(id: string): void {
    for (const [digest, entry] of this.#valid) if (entry.token.id === id) this.#valid.delete(digest)
    for (const [digest, lookup] of this.#lookupsInFlight)
      if (lookup.id === id) this.#lookupsInFlight.delete(digest)
  }

  /** The number of valid secrets and of look-ups in flight. */
  get size(): number {
    return this.#valid.size + this.#lookupsInFlight.size
  }

  /** The number of wrong secrets. */
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

  #lookUp(id: string, presented: PresentedSecret): LookupInFlight {
    const { digest } = presented
    const askedAt = this.#options.clock.now()
    const lookup: LookupInFlight = { id, answer: this.#read(id, presented) }
    this.#lookupsInFlight.set(digest, lookup)
    // After a change of the token, an earlier look-up does not count.
    const isCurrent = () => {
      const current = this.#lookupsInFlight.get(digest)
      return current === lookup
    }
    lookup.answer.then(
      (token) => {
        if (!isCurrent()) return
        this.#lookupsInFlight.delete(digest)
        if (token === undefined) this.#rememberWrong(digest)
        else this.#rememberValid(digest, { token, askedAt })
      },
      () => {
        if (isCurrent()) this.#lookupsInFlight.delete(digest)
      },
    )
    return lookup
  }

  async #read(id: string, presented: PresentedSecret): Promise<Token | undefined> {
    try {
      return judgePresented(presented, await this.#lookups.find(id))
    } catch (error) {
      throw toStoreError(error)
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
  /** The time of the request. */
  readonly askedAt: number
}

interface LookupInFlight {
  readonly id: string
  readonly answer: Promise<Token | undefined>
}

/**
 * Looks up tokens by id. Look-ups during calls share the next call, in their order. So many unknown tokens cost the store
 * two calls at a time, and a valid token among them waits for one or two calls.
 */
class TokenLookups {
  readonly #options: Pick<FreshOptions, 'clock' | 'deadlineMs'>
  readonly #batcher: Batcher<string, TokenRecord | undefined>

  constructor(store: Pick<TokenStore, 'find'>, options: Pick<FreshOptions, 'clock' | 'deadlineMs'>) {
    this.#options = options
    this.#batcher = new Batcher({
      maxItems: 500,
      maxInFlight: 2,
      start: queueMicrotask,
      mergesEqual: true,
      // A call without an answer ends at the deadline, so that it does not delay the next call.
      async run(ids) {
        const records = await inTime(() => store.find(ids), options)
        const byId = new Map(records.map((record) => [record.id, record]))
        return ids.map((id) => byId.get(id))
      },
    })
  }

  /** Reads the token with this id after this call. Rejects if the store does not answer within the deadline. */
  find(id: string): Promise<TokenRecord | undefined> {
    return inTime(() => this.#batcher.add(id), this.#options)
  }
}
