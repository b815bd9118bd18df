import type { AuditEntry, AuditQuery, AuditStore, NewAuditEntry } from '../../audit/index.ts'
import { type AuditRow, auditColumns, decodeAuditRow } from '../sql/audit-row.ts'
import { type Connection, readNow } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import type { Writer } from './writing/writer.ts'

export interface SqliteAuditOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  /** Throws when the store was closed. */
  check(): void
}

/** What operators did in one namespace. */
export function createSqliteAudit({ namespace, writer, reader, check }: SqliteAuditOptions): AuditStore {
  return {
    async write(entries) {
      check()
      await writer.write({ operation: 'writeAudit', namespace, args: [entries] })
    },
    async list(query) {
      check()
      return reader.read((connection) => listAudit(connection, namespace, query))
    },
    async prune(request) {
      check()
      // Nearly always there is nothing to do, and then nobody needs the writer.
      const isDue = await reader.read((connection) =>
        isAuditOld(connection, namespace, readNow(connection) - request.olderThanMs),
      )
      return isDue ? writer.write({ operation: 'pruneAudit', namespace, args: [request] }) : 0
    },
  }
}

export function insertAudit(
  connection: Connection,
  namespace: string,
  entries: readonly NewAuditEntry[],
  now: number,
): void {
  const insert = connection.prepare(
    `INSERT INTO audit_entry (namespace, ${auditColumns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
     ON CONFLICT (namespace, id) DO NOTHING`,
  )
  for (const { id, actor, action, target, outcome, code } of entries)
    insert.run(namespace, id, now, actor.id, actor.name, action, JSON.stringify(target), outcome, code)
}

export function pruneAudit(
  connection: Connection,
  namespace: string,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
  now: number,
): number {
  return connection.run(
    `DELETE FROM audit_entry WHERE namespace = ?1 AND id IN (
       SELECT id FROM audit_entry WHERE namespace = ?1 AND at < ?2 ORDER BY at LIMIT ?3)`,
    namespace,
    now - olderThanMs,
    limit,
  )
}

function listAudit(
  connection: Connection,
  namespace: string,
  { action, actor, limit, before }: AuditQuery,
): readonly AuditEntry[] {
  // Only what is asked for is in the statement, so that it goes by the index that fits.
  const given = [
    ['id < ?', before],
    ['action = ?', action],
    ['actor = ?', actor],
  ].filter((condition): condition is [string, string] => condition[1] !== undefined)
  const rows = connection.all<AuditRow>(
    `SELECT ${auditColumns} FROM audit_entry
     WHERE namespace = ?${given.map(([condition]) => ` AND ${condition}`).join('')} ORDER BY id DESC LIMIT ?`,
    namespace,
    ...given.map(([, value]) => value),
    limit,
  )
  return rows.map(decodeAuditRow)
}

function isAuditOld(connection: Connection, namespace: string, cutoff: number): boolean {
  const sql = 'SELECT 1 FROM audit_entry WHERE namespace = ?1 AND at < ?2 LIMIT 1'
  return connection.get(sql, namespace, cutoff) !== undefined
}
