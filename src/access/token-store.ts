/**
 * What access asks of a backend: the tokens of all namespaces. Whether a token is live is judged by the store's own
 * clock at the moment of the call.
 */
export interface TokenStore {
  /** Writes it; answers it as kept. */
  create(token: NewToken): Promise<TokenRecord>
  /** Those of these ids that there are, also those that ended, in no order. */
  find(ids: readonly string[]): Promise<readonly TokenRecord[]>
  /** Oldest first by id, also those that ended; of one namespace, or of all. `after` is the last id of the page before. */
  list(query: {
    readonly namespace?: string
    readonly limit: number
    readonly after?: string
  }): Promise<readonly TokenRecord[]>
  /** Ends it from now on; once revoked it stays as it was. Undefined: there is none. */
  revoke(id: string): Promise<TokenRecord | undefined>
  /** Whether any token is live. */
  hasLive(): Promise<boolean>
}

/** A token to be written, whole and checked. */
export interface NewToken {
  readonly id: string
  readonly name: string
  readonly scope: Scope
  readonly nodes: readonly string[] | null
  readonly namespace: string
  /** SHA-256 of the secret, in hexadecimal. */
  readonly digest: string
  readonly expiresInMs: number | null
}

export interface TokenRecord extends Token {
  readonly digest: string
  /** Neither revoked nor expired, as of the call. */
  readonly live: boolean
}

/**
 * A token lets its bearer speak to the server: in one namespace, as far as its scope goes, until it expires or is
 * revoked. Only a digest is stored; the secret is shown once, at creation.
 */
export interface Token {
  readonly id: string
  /** A name for people. */
  readonly name: string
  readonly scope: Scope
  /** The nodes it may connect as, and it may do nothing else then; null: it is bound to none. */
  readonly nodes: readonly string[] | null
  /** The namespace it speaks for; `*` may name any, request by request. */
  readonly namespace: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
}

/** What a token may do; each includes those before it. */
export type Scope = 'read' | 'work' | 'admin'

export const scopes: readonly Scope[] = ['read', 'work', 'admin']

/** Whether who has `held` may do what needs `needed`. */
export function includesScope(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed)
}

/** The namespace of a token that may name any. */
export const everyNamespace = '*'
