/**
 * The cluster state of servers that share nodes, as a backend stores it. Its rows are servers, nodes with their owner,
 * demands of tasks, pools, cordons and drains. Tasks themselves are jobs and not part of it.
 *
 * Every write is conditional on the version that the writer saw, so of two concurrent writes one is refused. Versions
 * come from one counter of the namespace. A row with a lower version never appears after one with a higher: a reader
 * that has read up to N has missed nothing below it. A removed row stays as a row without a document for `tombstoneMs`,
 * so that readers notice it. A reader that was away for longer reads all rows again.
 */
export interface ClusterStore {
  /**
   * Reads rows with a version above `since`, in the order of their versions, up to `limit`. `isReset`: the store has
   * forgotten removed rows after `since`, or does not know that version. Then the rows start at the beginning, and the
   * reader must discard its rows. `since` 0 reads everything and is never a reset. A page that starts at the beginning
   * extends beyond the forgotten versions, even beyond `limit`. Fewer rows than `limit`: there are no more for now.
   */
  read(since: number, limit: number): Promise<ClusterPage>
  /** Finds one row; undefined if it does not exist or was removed. */
  find(kind: ClusterKind, key: string): Promise<ClusterRecord | undefined>
  /**
   * Makes each write whose row still has the version `seen`. 0 means that the row does not exist or was removed; the
   * version of the removed row is valid too. All writes happen in one atomic step, in the given order. A write that is
   * too late does not stop the others. Answers the new version of each, or null for a write that is too late.
   */
  write(writes: readonly ClusterWrite[]): Promise<readonly (number | null)[]>
  /**
   * Forgets up to `limit` rows that were removed more than `olderThanMs` ago, but never the newest row. Answers how
   * many it forgot.
   */
  prune(limit: number, olderThanMs: number): Promise<number>
}

/** The kinds of rows. */
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
   * By the store's clock, epoch milliseconds; null: the row does not expire, or was removed. The store itself does not
   * act on it.
   */
  readonly expiresAt: number | null
}

/** A write to a row. */
export interface ClusterWrite {
  readonly kind: ClusterKind
  readonly key: string
  readonly seen: number
  /** Null removes the row. */
  readonly doc: string | null
  /** The lifetime from the store's present time; null: the row does not expire. */
  readonly forMs: number | null
}

/** A page of the cluster state. */
export interface ClusterPage {
  readonly rows: readonly ClusterRecord[]
  /** The store's clock, epoch milliseconds. */
  readonly now: number
  readonly isReset: boolean
}

/** How long readers may be away before they must read all rows again. */
export const tombstoneMs = 600_000

/** The wake-up after a write to the cluster state. */
export const clusterTopic = 'fleet'
