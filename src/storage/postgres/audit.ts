import type { AuditEntry, AuditQuery, AuditStore, NewAuditEntry } from '../../audit/index.ts'
import { type AuditRow, auditColumns, decodeAuditRow } from '../sql/audit-row.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'

/** What operators did in one namespace. */
export class PostgresAudit implements AuditStore {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #table: string

  constructor(connections: Connections, namespace: string, schema: string) {
    this.#connections = connections
    this.#namespace = namespace
    this.#table = `${schema}.audit_entry`
  }

  async write(entries: readonly NewAuditEntry[]): Promise<void> {
    await this.#connections.run(writeStatement(this.#table), [
      this.#namespace,
      entries.map(({ id }) => id),
      entries.map(({ actor }) => actor.id),
      entries.map(({ actor }) => actor.name),
      entries.map(({ action }) => action),
      entries.map(({ target }) => JSON.stringify(target)),
      entries.map(({ outcome }) => outcome),
      entries.map(({ code }) => code),
    ])
  }

  async list({ action, actor, limit, before }: AuditQuery): Promise<readonly AuditEntry[]> {
    const conditions = [
      ['id <', before],
      ['action =', action],
      ['actor =', actor],
    ] as const
    // Only what is asked for is in the statement, so that it goes by the index that fits.
    const given = conditions.filter(([, value]) => value !== undefined)
    const where = given.map(([condition], index) => ` AND ${condition} $${index + 3}`).join('')
    const kind = conditions.map(([, value]) => Number(value !== undefined)).join('')
    const text = `
SELECT ${auditColumns} FROM ${this.#table} WHERE namespace = $1${where} ORDER BY id DESC LIMIT $2`
    const { rows } = await this.#connections.run<AuditRow & Record<string, unknown>>(
      { name: `sb_audit_list_${kind}`, text },
      [this.#namespace, limit, ...given.map(([, value]) => value)],
    )
    return rows.map(decodeAuditRow)
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const values = [this.#namespace, olderThanMs, limit]
    return (await this.#connections.run(pruneStatement(this.#table), values)).rowCount ?? 0
  }
}

function writeStatement(table: string): Statement {
  return {
    name: 'sb_audit_write',
    text: `
INSERT INTO ${table} (namespace, ${auditColumns})
SELECT $1, e.id, clock.now, e.actor, e.actor_name, e.action, e.target, e.outcome, e.code
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
  e (id, actor, actor_name, action, target, outcome, code), (SELECT ${nowMs} AS now) clock
ON CONFLICT (namespace, id) DO NOTHING`,
  }
}

function pruneStatement(table: string): Statement {
  return {
    name: 'sb_audit_prune',
    text: `
DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM ${table} WHERE namespace = $1 AND at < (SELECT ${nowMs} - $2::bigint)
  ORDER BY at LIMIT $3 FOR UPDATE SKIP LOCKED))`,
  }
}
