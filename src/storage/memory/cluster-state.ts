import type {
  ClusterKind,
  ClusterPage,
  ClusterRecord,
  ClusterStore,
  ClusterWrite,
} from '../../dispatch/cluster/cluster-store.ts'
import { isClusterReset } from '../cluster-state.ts'

/** The cluster state of one namespace. */
export class MemoryClusterState implements ClusterStore {
  readonly #now: () => number
  /** In the order of versions: a written row moves to the end. */
  readonly #rows = new Map<string, KeptRow>()
  #version = 0
  /** The highest version of a pruned row. */
  #forgotten = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async read(since: number, limit: number): Promise<ClusterPage> {
    const isReset = isClusterReset(since, { version: this.#version, forgotten: this.#forgotten })
    const from = isReset ? 0 : since
    const rows: ClusterRecord[] = []
    for (const { row } of from < this.#version ? this.#rows.values() : []) {
      if (row.version <= from) continue
      // A reader cannot continue below the forgotten version, so a page that starts at the beginning goes beyond it.
      if (rows.length >= limit && (from > 0 || rows.at(-1)!.version > this.#forgotten)) break
      rows.push(row)
    }
    return { rows, now: this.#now(), isReset }
  }

  async find(kind: ClusterKind, key: string): Promise<ClusterRecord | undefined> {
    const found = this.#rows.get(nameOf(kind, key))
    return found?.removedAt === null ? found.row : undefined
  }

  async write(writes: readonly ClusterWrite[]): Promise<readonly (number | null)[]> {
    const now = this.#now()
    return writes.map(({ kind, key, seen, doc, forMs }) => {
      const name = nameOf(kind, key)
      const found = this.#rows.get(name)
      const isThere = found?.removedAt === null
      if (seen !== found?.row.version && (seen !== 0 || isThere)) return null
      const version = ++this.#version
      const expiresAt = doc === null || forMs === null ? null : now + forMs
      this.#rows.delete(name)
      this.#rows.set(name, {
        row: { kind, key, version, doc, expiresAt },
        removedAt: doc === null ? now : null,
      })
      return version
    })
  }

  /** Whether there are nodes or tasks for nodes. */
  isDispatched(): boolean {
    const rows = [...this.#rows.values()]
    return rows.some(({ row }) => row.doc !== null && (row.kind === 'node' || row.kind === 'demand'))
  }

  /** The newest row stays, so a reader that has read the cluster state to its end is above the forgotten version. */
  async prune(limit: number, olderThanMs: number): Promise<number> {
    const cutoff = this.#now() - olderThanMs
    const old = [...this.#rows]
      .filter(
        ([, { row, removedAt }]) => removedAt !== null && removedAt < cutoff && row.version < this.#version,
      )
      .slice(0, limit)
    for (const [name, { row }] of old) {
      this.#rows.delete(name)
      this.#forgotten = Math.max(this.#forgotten, row.version)
    }
    return old.length
  }
}

interface KeptRow {
  readonly row: ClusterRecord
  /** Null: the row exists. */
  readonly removedAt: number | null
}

/** The map key of a row. No kind has a space. */
function nameOf(kind: ClusterKind, key: string): string {
  return `${kind} ${key}`
}
