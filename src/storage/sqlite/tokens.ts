import type { NewToken, TokenRecord, TokenStore } from '../../access/index.ts'
import { decodeToken, encodeScope, type TokenRow } from '../sql/token-row.ts'
import { type Connection, readNow } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import type { Writer } from './writing/writer.ts'

/** The tokens of all namespaces, in one table. They are few: nothing here needs an index but the id. */
export function createTokens(reader: Reader, writer: Writer): TokenStore {
  return {
    create: (token) => writer.write({ operation: 'createToken', namespace: token.namespace, args: [token] }),
    find: (ids) => reader.read((connection) => findTokens(connection, ids, readNow(connection))),
    list: (query) => reader.read((connection) => listTokens(connection, query, readNow(connection))),
    // Ids are unique over all namespaces, so which one it is in is not asked.
    revoke: (id) => writer.write({ operation: 'revokeToken', namespace: '', args: [id] }),
    hasLive: () => reader.read((connection) => hasLiveToken(connection, readNow(connection))),
  }
}

export function insertToken(connection: Connection, token: NewToken, now: number): TokenRecord {
  const { namespace, id, name, digest, expiresInMs } = token
  const { scope, nodes } = encodeScope(token)
  const expiresAt = expiresInMs === null ? null : now + expiresInMs
  connection.run(
    `INSERT INTO access_token (namespace, id, name, scope, nodes, digest, created_at, expires_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
    namespace,
    id,
    name,
    scope,
    nodes,
    digest,
    now,
    expiresAt,
  )
  return findTokens(connection, [id], now)[0]!
}

export function revokeToken(connection: Connection, id: string, now: number): TokenRecord | undefined {
  connection.run('UPDATE access_token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL', id, now)
  return findTokens(connection, [id], now)[0]
}

const live = 'revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?1)'
const columns = `namespace, id, name, scope, nodes, digest, created_at, expires_at, revoked_at, ${live} AS live`

function findTokens(connection: Connection, ids: readonly string[], now: number): readonly TokenRecord[] {
  const rows = connection.all<TokenRow>(
    `SELECT ${columns} FROM access_token WHERE id IN (SELECT value FROM json_each(?2))`,
    now,
    JSON.stringify(ids),
  )
  return rows.map(decodeToken)
}

function listTokens(
  connection: Connection,
  query: { readonly namespace?: string; readonly limit: number; readonly after?: string },
  now: number,
): readonly TokenRecord[] {
  const rows = connection.all<TokenRow>(
    `SELECT ${columns} FROM access_token
     WHERE id > ?2 AND (?3 IS NULL OR namespace = ?3) ORDER BY id LIMIT ?4`,
    now,
    query.after ?? '',
    query.namespace ?? null,
    query.limit,
  )
  return rows.map(decodeToken)
}

function hasLiveToken(connection: Connection, now: number): boolean {
  return (
    connection.get<{ any: number }>(`SELECT EXISTS (SELECT 1 FROM access_token WHERE ${live}) AS any`, now)!
      .any === 1
  )
}
