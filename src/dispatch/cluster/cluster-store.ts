/**
 * What servers that share nodes ask of a backend: a cluster state that all of them read. It holds rows: the servers,
 * which node is whose, what tasks ask for, pools, cordons, drains. Tasks themselves are jobs and are not on it.
 *
 * Every write is conditional on the version that the writer saw, so of two writes that cross one is refused. Versions
 * come from one counter of the namespace, and a row with a lower version never appears after one with a higher: a
 * reader that has read up to N has missed nothing below it. A removed row stays as a row without a document for
 * `tombstoneMs`, so that readers learn of it; a reader that was away for longer reads everything anew.
 */
export interface ClusterStore {
  /**
   * Rows with a version above `since`, in the order of their versions, up to `limit`. `isReset`: removed rows after
   * `since` have been forgotten, or the store knows no such version; the rows start at the beginning then, and what the
   * reader knew is void. `since` 0 reads everything and is never a reset. A page that starts at the beginning goes
   * beyond what was forgotten, even beyond `limit`. Fewer rows than `limit`: there are no more for now.
   */
  read(since: number, limit: number): Promise<ClusterPage>
  /** One row, as it is now; undefined when there is none, or only what is left of a removed one. */
  find(kind: ClusterKind, key: string): Promise<ClusterRecord | undefined>
  /**
   * Makes each write whose row still has the version `seen` (0: there is none, or it was removed; the version of the
   * removed row is as good). All in one step of the store, in the order given; a write that is too late does not stop
   * the others. Answers the new version of each, or null for too late.
   */
  write(writes: readonly ClusterWrite[]): Promise<readonly (number | null)[]>
  /**
   * Forgets up to `limit` rows that were removed longer ago than `olderThanMs`, never the newest row; answers how
   * many.
   */
  prune(limit: number, olderThanMs: number): Promise<number>
}

/** What a row is about. */
export type ClusterKind = 'server' | 'node' | 'demand' | 'pool' | 'cordon' | 'drain'

/** A row of the cluster state. */
export interface ClusterRecord {
  readonly kind: ClusterKind
  /** 1 to 600 characters of printable text, compared byte by byte. */
  readonly key: string
  readonly version: number
  /** JSON text, kept byte for byte, up to some megabytes; null: the row was removed. */
  readonly doc: string | null
  /**
   * By the store's clock, epoch milliseconds; null: it stays until it is removed, or it was. The store itself does
   * not act on it.
   */
  readonly expiresAt: number | null
}

/** What to put into a row. */
export interface ClusterWrite {
  readonly kind: ClusterKind
  readonly key: string
  readonly seen: number
  /** Null removes the row. */
  readonly doc: string | null
  /** From the store's now; null: for good. */
  readonly forMs: number | null
}

/** A part of the cluster state. */
export interface ClusterPage {
  readonly rows: readonly ClusterRecord[]
  /** The store's clock, epoch milliseconds. */
  readonly now: number
  readonly isReset: boolean
}

/** How long readers may be away before they must read everything anew. */
export const tombstoneMs = 600_000

/** The wake-up after a write to the cluster state. */
export const clusterTopic = 'fleet'
