/**
 * A token lets its bearer speak to the server: in one namespace, as far as its scope goes, until it expires or is
 * revoked. What is kept of it is a digest; the secret is shown once, when it is made.
 */
export interface Token {
  readonly id: string
  /** For people: whose it is. */
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
