import type { NewToken, Scope, TokenRecord } from '../../access/index.ts'

/**
 * A token's row as SQL keeps it. Drivers give whole numbers as numbers or as text and truth as 0 and 1; here it becomes a
 * record, whatever it came as.
 */
export interface TokenRow {
  readonly namespace: string
  readonly id: string
  readonly name: string
  readonly scope: Scope | typeof nodeScope
  /** JSON: a list of node ids. */
  readonly nodes: string | null
  readonly digest: string
  readonly created_at: number | string
  readonly expires_at: number | string | null
  readonly revoked_at: number | string | null
  readonly live: boolean | number
}

/** As what the scope of a token that is bound to nodes is written: releases that cannot bind it give it no right. */
const nodeScope = 'node'

/** What is written of a token's scope and nodes. */
export function encodeScope({ scope, nodes }: Pick<NewToken, 'scope' | 'nodes'>): {
  readonly scope: TokenRow['scope']
  readonly nodes: string | null
} {
  return nodes === null ? { scope, nodes: null } : { scope: nodeScope, nodes: JSON.stringify(nodes) }
}

export function decodeToken(row: TokenRow): TokenRecord {
  return {
    id: row.id,
    name: row.name,
    ...decodeScope(row),
    namespace: row.namespace,
    createdAt: Number(row.created_at),
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
    revokedAt: row.revoked_at === null ? null : Number(row.revoked_at),
    digest: row.digest,
    live: Boolean(row.live),
  }
}

/** A token that was bound and whose nodes are not to be read is bound to none: it can do nothing. */
function decodeScope({
  scope,
  nodes,
}: Pick<TokenRow, 'scope' | 'nodes'>): Pick<TokenRecord, 'scope' | 'nodes'> {
  if (scope !== nodeScope && nodes === null) return { scope, nodes: null }
  return { scope: 'work', nodes: readNodes(nodes) }
}

function readNodes(nodes: string | null): readonly string[] {
  try {
    const ids: unknown = JSON.parse(nodes ?? '[]')
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : []
  } catch {
    return []
  }
}
