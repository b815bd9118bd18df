import type { AuditEntry } from './audit-record.ts'

/** What the audit asks of a backend, in one namespace. */
export interface AuditStore {
  /** Writes them, all or none; one whose id is there already stays as it is, so it is safe to try again. */
  write(entries: readonly NewAuditEntry[]): Promise<void>
  /** Newest first by id. */
  list(query: AuditQuery): Promise<readonly AuditEntry[]>
  /** Forgets up to `limit` that were recorded longer ago than that, oldest first; answers how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** An entry to be written; the store says when it was. */
export type NewAuditEntry = Omit<AuditEntry, 'at'>

export interface AuditQuery {
  readonly action?: string
  /** The actor's id. */
  readonly actor?: string
  readonly limit: number
  /** The last id of the page before. */
  readonly before?: string
}
