import { Fresh, type FreshOptions } from './fresh.ts'
import type { PresentedSecret } from './secret.ts'
import type { TokenStore } from './store.ts'
import type { Token } from './token.ts'
import { findPresented } from './tokens.ts'

export interface VerifiedTokensOptions extends FreshOptions {
  /** The most tokens that are remembered. */
  readonly maxEntries: number
}

/**
 * The tokens that were presented lately and found valid, by the digest of their secret, so that not every request
 * asks the store. What is remembered only saves asking: it is asked for again when it is too old to count. Secrets
 * that are not valid are never remembered, so nobody can push out the good ones by trying.
 */
export class VerifiedTokens {
  readonly #store: TokenStore
  readonly #options: VerifiedTokensOptions
  /** In the order in which they were first found valid. */
  readonly #valid = new Map<string, Entry>()
  /** Those the store is being asked about for the first time; no more than there are requests. */
  readonly #asking = new Map<string, Entry>()

  constructor(store: TokenStore, options: VerifiedTokensOptions) {
    this.#store = store
    this.#options = options
  }

  /** The live token of this secret, or undefined. Throws `store_unavailable` when that cannot be known. */
  async find(presented: PresentedSecret): Promise<Token | undefined> {
    const { id, digest } = presented
    // What has not the form of a token's secret has no record that could be looked up.
    if (id === undefined) return findPresented(this.#store, presented)
    const entry = this.#valid.get(digest) ?? this.#asking.get(digest) ?? this.#ask(id, presented)
    try {
      const token = await entry.fresh.get()
      if (token) this.#remember(digest, entry)
      else this.#valid.delete(digest)
      return token
    } finally {
      this.#asking.delete(digest)
    }
  }

  /** Whether this secret was right before. It may have been revoked since: `find` asks again. */
  knows(digest: string): boolean {
    return this.#valid.has(digest)
  }

  /** Asks the store again when this token is presented next. */
  forget(id: string): void {
    for (const entries of [this.#valid, this.#asking])
      for (const entry of entries.values()) if (entry.id === id) entry.fresh.forget()
  }

  /** How many are remembered or being asked about. */
  get size(): number {
    return this.#valid.size + this.#asking.size
  }

  #ask(id: string, presented: PresentedSecret): Entry {
    const entry = { id, fresh: new Fresh(() => findPresented(this.#store, presented), this.#options) }
    this.#asking.set(presented.digest, entry)
    return entry
  }

  #remember(digest: string, entry: Entry): void {
    if (this.#valid.has(digest)) return
    if (this.#valid.size >= this.#options.maxEntries) {
      const [oldest] = this.#valid.keys()
      this.#valid.delete(oldest!)
    }
    this.#valid.set(digest, entry)
  }
}

interface Entry {
  readonly id: string
  readonly fresh: Fresh<Token | undefined>
}
