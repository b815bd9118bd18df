/** The store of tokens of all namespaces. Its own clock decides at each call whether a token is live. */
export interface TokenStore {
  /** Writes a token and returns its record. */
  create(token: NewToken): Promise<TokenRecord>
  /** Finds tokens by id, in any order, with expired and revoked ones. */
  find(ids: readonly string[]): Promise<readonly TokenRecord[]>
  /**
   * Lists tokens of one namespace or of all, oldest first, with expired and revoked ones. `after` is the last id of the
   * previous page.
   */
  list(query: {
    readonly namespace?: string
    readonly limit: number
    readonly after?: string
  }): Promise<readonly TokenRecord[]>
  /** Revokes a token. A revoked token does not change. Undefined: there is no such token. */
  revoke(id: string): Promise<TokenRecord | undefined>
  /** Whether any token is live. */
  hasLive(): Promise<boolean>
}

/** A checked token to write. */
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
  /** Neither revoked nor expired at the time of the call. */
  readonly live: boolean
}

/**
 * A token gives its bearer access to the server: to one namespace, with a scope, until it expires or is revoked. The store
 * has only a digest; the caller gets the secret once, at creation.
 */
export interface Token {
  readonly id: string
  /** A name for operators. */
  readonly name: string
  readonly scope: Scope
  /** The token may only connect as these nodes; null: it is not bound to nodes. */
  readonly nodes: readonly string[] | null
  /** The namespace of its requests; with `*`, each request may name any namespace. */
  readonly namespace: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
}

/** The rights of a token. Each scope includes the previous ones. */
export type Scope = 'read' | 'work' | 'admin'

export const scopes: readonly Scope[] = ['read', 'work', 'admin']

/** Whether the scope `held` includes the scope `needed`. */
export function includesScope(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed)
}

/** The namespace of a token for all namespaces. */
export const everyNamespace = '*'
