import type { TokenStore } from '../../access/index.ts'
import { decodeToken, encodeScope, type TokenRow } from '../sql/token-row.ts'
import type { Calls } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import type { Tables } from './tables.ts'

/** The tokens of all namespaces, in one table. They are few: nothing here needs an index but the id. */
export function createTokens(calls: Calls, { token: table }: Tables): TokenStore {
  const live = `(revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${nowMs}))`
  const shown = `namespace, id, name, CAST(scope AS CHAR) AS scope, nodes, digest, created_at, expires_at,
      revoked_at, ${live} AS live`
  const selectOne = `SELECT ${shown} FROM ${table} WHERE id = ?`
  return {
    create(token) {
      const { namespace, id, name, digest, expiresInMs } = token
      const { scope, nodes } = encodeScope(token)
      return calls.run('create a token', async (call) => {
        await call.rows(
          `INSERT INTO ${table} (namespace, id, name, scope, nodes, digest, created_at, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ${nowMs}, ${nowMs} + ?)`,
          [namespace, id, name, scope, nodes, digest, expiresInMs],
        )
        const [row] = await call.rows<TokenRow>(selectOne, [id])
        return decodeToken(row!)
      })
    },

    async find(ids) {
      // `IN ()` is no SQL.
      if (ids.length === 0) return []
      return calls.run('find tokens', async (call) => {
        const rows = await call.rows<TokenRow>(`SELECT ${shown} FROM ${table} WHERE id IN (?)`, [ids])
        return rows.map(decodeToken)
      })
    },

    list({ namespace, limit, after = '' }) {
      return calls.run('list tokens', async (call) => {
        const rows = await call.rows<TokenRow>(
          `SELECT ${shown} FROM ${table}
            WHERE id > ? ${namespace === undefined ? '' : 'AND namespace = ?'} ORDER BY id LIMIT ?`,
          [after, ...(namespace === undefined ? [] : [namespace]), limit],
        )
        return rows.map(decodeToken)
      })
    },

    revoke(id) {
      return calls.run('revoke a token', async (call) => {
        const [, [row]] = (await call.packet([
          [`UPDATE ${table} SET revoked_at = ${nowMs} WHERE id = ? AND revoked_at IS NULL`, [id]],
          [selectOne, [id]],
        ])) as [unknown, TokenRow[]]
        return row && decodeToken(row)
      })
    },

    hasLive() {
      return calls.run('look for a live token', async (call) => {
        const rows = await call.rows(`SELECT 1 FROM ${table} WHERE ${live} LIMIT 1`, [])
        return rows.length > 0
      })
    },
  }
}
