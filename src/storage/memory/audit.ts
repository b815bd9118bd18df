import type { AuditEntry, AuditQuery, AuditStore, NewAuditEntry } from '../../audit/index.ts'

/** The audit entries of one namespace. */
export class MemoryAudit implements AuditStore {
  readonly #now: () => number
  readonly #entries = new Map<string, AuditEntry>()

  constructor(now: () => number) {
    this.#now = now
  }

  async write(entries: readonly NewAuditEntry[]): Promise<void> {
    const at = this.#now()
    for (const entry of entries) {
      if (!this.#entries.has(entry.id)) this.#entries.set(entry.id, { ...structuredClone(entry), at })
    }
  }

  async list({ action, actor, limit, before }: AuditQuery): Promise<readonly AuditEntry[]> {
    return [...this.#entries.values()]
      .filter((entry) => action === undefined || entry.action === action)
      .filter((entry) => actor === undefined || entry.actor.id === actor)
      .filter((entry) => before === undefined || entry.id < before)
      .sort((a, b) => (a.id > b.id ? -1 : 1))
      .slice(0, limit)
      .map((entry) => structuredClone(entry))
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const cutoff = this.#now() - olderThanMs
    const old = [...this.#entries.values()]
      .filter(({ at }) => at < cutoff)
      .sort((a, b) => a.at - b.at)
      .slice(0, limit)
    for (const { id } of old) this.#entries.delete(id)
    return old.length
  }
}
