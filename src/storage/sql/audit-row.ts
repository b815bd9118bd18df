import type { AuditEntry, AuditOutcome, AuditTarget } from '../../audit/index.ts'

/** An entry of the audit as SQL keeps it; drivers give whole numbers as numbers or as text. */
export interface AuditRow {
  readonly id: string
  readonly at: number | string
  readonly actor: string
  readonly actor_name: string | null
  readonly action: string
  readonly target: string
  readonly outcome: string
  readonly code: string | null
}

/** The columns of such a row, in the order of `AuditRow`. */
export const auditColumns = 'id, at, actor, actor_name, action, target, outcome, code'

export function decodeAuditRow(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    at: Number(row.at),
    actor: { id: row.actor, name: row.actor_name },
    action: row.action,
    target: JSON.parse(row.target) as AuditTarget,
    outcome: row.outcome as AuditOutcome,
    code: row.code,
  }
}
