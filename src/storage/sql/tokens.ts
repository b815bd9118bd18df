import type { NewToken, Scope, TokenRecord, TokenStore } from '../../access/index.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import type { Dialect } from './dialect.ts'
import { readAll, readOne } from './operations.ts'
import { last, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/** The tokens of all namespaces, in one table. There are few, so the only index is the primary key. */
export function createTokenStore(database: Database): TokenStore {
  return {
    create: (token) => database.run(createToken, [token]),
    find: (ids) => database.run(findTokens, [ids]),
    list: (query) => database.run(listTokens, [query]),
    revoke: (id) => database.run(revokeToken, [id]),
    hasLive: async () => (await database.run(findLive, [])) !== undefined,
  }
}

const isLive = (d: Dialect) => `(revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${d.now}))`
const selected = (d: Dialect) =>
  `namespace, id, name, ${d.text('scope')} AS scope, nodes, digest, created_at, expires_at, revoked_at,
  ${isLive(d)} AS live`

const insert = statement(
  'token_create',
  {
    ...{ namespace: 'text', id: 'text', name: 'text', scope: 'text', nodes: 'text | null', digest: 'text' },
    expiresInMs: 'integer | null',
  },
  (d) => `
INSERT INTO @access_token (namespace, id, name, scope, nodes, digest, created_at, expires_at)
SELECT :namespace, :id, :name, :scope, :nodes, :digest, clock.now, clock.now + :expiresInMs
FROM (SELECT ${d.now} AS now LIMIT 1) clock
RETURNING ${selected(d)}`,
)

const createToken = operation({
  name: 'create a token',
  *procedure(token: NewToken) {
    const { namespace, id, name, digest, expiresInMs } = token
    const bound = insert({ namespace, id, name, digest, expiresInMs, ...encodeScope(token) })
    return decodeToken((yield* last(one(bound)))!)
  },
})

const selectByIds = statement(
  'token_find',
  { ids: 'text[]' },
  (d) => `SELECT ${selected(d)} FROM @access_token WHERE id IN (:ids)`,
)

const findTokens = readAll('find tokens', (ids: readonly string[]) => selectByIds({ ids }), decodeToken)

const selectPage = statement(
  'token_list',
  { 'namespace?': 'text', 'after?': 'text', limit: 'integer' },
  (d) => `
SELECT ${selected(d)} FROM @access_token
WHERE 1 = 1 {AND namespace = :namespace} {AND id > :after} ORDER BY id LIMIT :limit`,
)

const listTokens = readAll(
  'list tokens',
  ({ namespace, after, limit }: Parameters<TokenStore['list']>[0]) => selectPage({ namespace, after, limit }),
  decodeToken,
)

const setRevoked = statement(
  'token_revoke',
  { id: 'text' },
  (d) => `UPDATE @access_token SET revoked_at = ${d.now} WHERE id = :id AND revoked_at IS NULL`,
)

const revokeToken = operation({
  name: 'revoke a token',
  *procedure(id: string) {
    const [, found] = yield* last(run(setRevoked({ id }), selectByIds({ ids: [id] })))
    const [row] = found!.rows
    return row === undefined ? undefined : decodeToken(row)
  },
})

const selectLive = statement(
  'token_live',
  {},
  (d) => `SELECT 1 FROM @access_token WHERE ${isLive(d)} LIMIT 1`,
)

const findLive = readOne(
  'look for a live token',
  () => selectLive({}),
  () => true,
)

/** A token as its row stores it. Its nodes may be damaged. */
interface TokenRow extends Omit<TokenRecord, 'scope' | 'nodes'> {
  readonly scope: Scope | typeof nodeScope
  readonly nodes: string | null
}

const stored = columns<TokenRow>({
  ...{ id: 'text', name: 'text', namespace: 'text', createdAt: 'integer', expiresAt: 'integer | null' },
  ...{ revokedAt: 'integer | null', digest: 'text', live: 'boolean', scope: 'text', nodes: 'text | null' },
})

/** The stored scope of a token that is bound to nodes. A release that does not know it gives such a token no rights. */
const nodeScope = 'node'

/** Encodes a token's scope and nodes for its row. */
export function encodeScope({ scope, nodes }: Pick<NewToken, 'scope' | 'nodes'>): {
  readonly scope: TokenRow['scope']
  readonly nodes: string | null
} {
  return nodes === null ? { scope, nodes: null } : { scope: nodeScope, nodes: JSON.stringify(nodes) }
}

export function decodeToken(row: unknown): TokenRecord {
  const token = stored.decode(row)
  return { ...token, ...decodeScope(token) }
}

/** A bound token whose nodes cannot be read is bound to no node: it can do nothing. */
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
