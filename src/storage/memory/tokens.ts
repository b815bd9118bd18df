import type { NewToken, Token, TokenRecord, TokenStore } from '../../access/index.ts'

/** The tokens of all namespaces. */
export class MemoryTokens implements TokenStore {
  readonly #now: () => number
  readonly #tokens = new Map<string, Omit<TokenRecord, 'live'>>()

  constructor(now: () => number) {
    this.#now = now
  }

  async create({ expiresInMs, ...token }: NewToken): Promise<TokenRecord> {
    const createdAt = this.#now()
    const expiresAt = expiresInMs === null ? null : createdAt + expiresInMs
    const kept = { ...token, createdAt, expiresAt, revokedAt: null }
    this.#tokens.set(token.id, kept)
    return this.#toRecord(kept)
  }

  async find(ids: readonly string[]): Promise<readonly TokenRecord[]> {
    const found = [...new Set(ids)].map((id) => this.#tokens.get(id))
    return found.filter((token) => token !== undefined).map((token) => this.#toRecord(token))
  }

  async list(query: { namespace?: string; limit: number; after?: string }): Promise<readonly TokenRecord[]> {
    return [...this.#tokens.values()]
      .filter(({ namespace }) => query.namespace === undefined || namespace === query.namespace)
      .filter(({ id }) => query.after === undefined || id > query.after)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, query.limit)
      .map((token) => this.#toRecord(token))
  }

  async revoke(id: string): Promise<TokenRecord | undefined> {
    const token = this.#tokens.get(id)
    if (!token) return undefined
    const revoked = { ...token, revokedAt: token.revokedAt ?? this.#now() }
    this.#tokens.set(id, revoked)
    return this.#toRecord(revoked)
  }

  async hasLive(): Promise<boolean> {
    const now = this.#now()
    return [...this.#tokens.values()].some((token) => isLive(token, now))
  }

  #toRecord(token: Omit<TokenRecord, 'live'>): TokenRecord {
    return { ...token, live: isLive(token, this.#now()) }
  }
}

function isLive({ revokedAt, expiresAt }: Pick<Token, 'revokedAt' | 'expiresAt'>, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > now)
}
