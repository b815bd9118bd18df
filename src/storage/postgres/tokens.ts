import type { NewToken, TokenRecord, TokenStore } from '../../access/index.ts'
import { decodeToken, encodeScope, type TokenRow } from '../sql/token-row.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'

/** The tokens of all namespaces, in one table. They are few: nothing here needs an index but the id. */
export function createTokens(connections: Connections, schema: string): TokenStore {
  const statements = tokenStatements(schema)
  const ask = async (statement: Statement, values: unknown[]): Promise<readonly TokenRecord[]> =>
    (await connections.run<TokenRow>(statement, values)).rows.map(decodeToken)
  return {
    async create(token: NewToken) {
      const { namespace, id, name, digest, expiresInMs } = token
      const { scope, nodes } = encodeScope(token)
      const [made] = await ask(statements.create, [namespace, id, name, scope, nodes, digest, expiresInMs])
      return made!
    },
    find: (ids) => ask(statements.find, [ids]),
    list: ({ namespace = null, limit, after = null }) => ask(statements.list, [namespace, after, limit]),
    revoke: async (id) => (await ask(statements.revoke, [id]))[0],
    async hasLive() {
      const { rows } = await connections.run<{ any: boolean }>(statements.hasLive, [])
      return rows[0]!.any
    },
  }
}

function tokenStatements(s: string): Record<'create' | 'find' | 'list' | 'revoke' | 'hasLive', Statement> {
  const live = `(revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${nowMs}))`
  const shown = `namespace, id, name, scope, nodes, digest, created_at, expires_at, revoked_at, ${live} AS live`
  return {
    create: {
      name: 'sb_token_create',
      text: `
INSERT INTO ${s}.access_token (namespace, id, name, scope, nodes, digest, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, clock.now, clock.now + $7::bigint FROM (SELECT ${nowMs} AS now) clock
RETURNING ${shown}`,
    },
    find: {
      name: 'sb_token_find',
      text: `SELECT ${shown} FROM ${s}.access_token WHERE id = ANY ($1::text[])`,
    },
    list: {
      name: 'sb_token_list',
      text: `
SELECT ${shown} FROM ${s}.access_token
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR id > $2) ORDER BY id LIMIT $3`,
    },
    revoke: {
      name: 'sb_token_revoke',
      text: `
UPDATE ${s}.access_token SET revoked_at = coalesce(revoked_at, ${nowMs}) WHERE id = $1 RETURNING ${shown}`,
    },
    hasLive: {
      name: 'sb_token_live',
      text: `SELECT EXISTS (SELECT FROM ${s}.access_token WHERE ${live}) AS any`,
    },
  }
}
