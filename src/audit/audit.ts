import { type AuditAct, type ListAuditOptions, resolveAct, resolveListAudit } from './audit-options.ts'
import type { AuditEntry } from './audit-record.ts'
import type { AuditStore } from './audit-store.ts'

/** Records what operators do, and shows it. */
export interface Audit {
  /** Writes an entry; it is there for good when this has answered, until it is pruned. */
  record(act: AuditAct): Promise<void>
  /** Newest first. */
  list(options?: ListAuditOptions): Promise<AuditPage>
}

export interface AuditPage {
  readonly items: readonly AuditEntry[]
  readonly cursor: string | null
}

/** Makes the audit of one namespace over its store. */
export function createAudit({ store }: { readonly store: AuditStore }): Audit {
  return {
    async record(act) {
      await store.write([resolveAct(act)])
    },

    async list(options = {}) {
      const query = resolveListAudit(options)
      const entries = await store.list(query)
      const items = entries.slice(0, query.limit - 1)
      return { items, cursor: entries.length === query.limit ? items.at(-1)!.id : null }
    },
  }
}
