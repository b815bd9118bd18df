import type { Scope, TokenRecord } from '../access/index.ts'

/**
 * A token's row as SQL keeps it. Drivers give whole numbers as numbers or as text and truth as 0 and 1; here it becomes a
 * record, whatever it came as.
 */
export interface TokenRow {
  readonly namespace: string
  readonly id: string
  readonly name: string
  readonly scope: Scope
  readonly digest: string
  readonly created_at: number | string
  readonly expires_at: number | string | null
  readonly revoked_at: number | string | null
  readonly live: boolean | number
}

export function decodeToken(row: TokenRow): TokenRecord {
  return {
    id: row.id,
    name: row.name,
    scope: row.scope,
    namespace: row.namespace,
    createdAt: Number(row.created_at),
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
    revokedAt: row.revoked_at === null ? null : Number(row.revoked_at),
    digest: row.digest,
    live: Boolean(row.live),
  }
}
