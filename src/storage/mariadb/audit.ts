import type { AuditStore } from '../../audit/index.ts'
import { type AuditRow, auditColumns, decodeAuditRow } from '../sql/audit-row.ts'
import { rowCount } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import type { Store } from './engine-store.ts'

/** What operators did in one namespace. */
export function createMariadbAudit({
  calls,
  tables,
  namespace,
}: Pick<Store, 'calls' | 'tables' | 'namespace'>): AuditStore {
  const table = tables.audit
  return {
    async write(entries) {
      if (entries.length === 0) return
      const row = `(?, ?, ${nowMs}, ?, ?, ?, ?, ?, ?)`
      const values = entries.flatMap(({ id, actor, action, target, outcome, code }) => [
        ...[namespace, id, actor.id, actor.name],
        ...[action, JSON.stringify(target), outcome, code],
      ])
      await calls.run('write to the audit', async (call) => {
        await call.rows(
          // Not IGNORE, which would also cut short what does not fit.
          `INSERT INTO ${table} (namespace, ${auditColumns}) VALUES ${entries.map(() => row).join(', ')}
            ON DUPLICATE KEY UPDATE id = VALUES(id)`,
          values,
        )
      })
    },

    list({ action, actor, limit, before }) {
      // Only what is asked for is in the statement, so that it goes by the index that fits.
      const given = [
        ['id < ?', before],
        ['action = ?', action],
        ['actor = ?', actor],
      ].filter(([, value]) => value !== undefined)
      return calls.run('list the audit', async (call) => {
        const rows = await call.rows<AuditRow>(
          `SELECT ${auditColumns} FROM ${table}
            WHERE namespace = ?${given.map(([condition]) => ` AND ${condition}`).join('')}
            ORDER BY id DESC LIMIT ?`,
          [namespace, ...given.map(([, value]) => value), limit],
        )
        return rows.map(decodeAuditRow)
      })
    },

    prune({ olderThanMs, limit }) {
      return calls.run('prune the audit', async (call) => {
        const [gone] = await call.packet([
          [
            `DELETE FROM ${table} WHERE namespace = ? AND at < ${nowMs} - ? ORDER BY at LIMIT ?`,
            [namespace, olderThanMs, limit],
          ],
        ])
        return rowCount(gone)
      })
    },
  }
}
