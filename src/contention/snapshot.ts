/**
 * Who waits, how long and on whom: everything that was measured in this process, as plain data. Spans are milliseconds,
 * instants epoch milliseconds.
 */
export interface ContentionSnapshot {
  /** Since when it is measured. */
  readonly since: number
  readonly at: number
  /** Sums of the matrix columns, the kind that delayed others most first. */
  readonly holders: readonly HolderTotal[]
  /** Who waited on whom: the cells that have something in them, greatest first. */
  readonly matrix: readonly MatrixCell[]
  /** By kind of command; those that waited longest, in all, first. */
  readonly kinds: readonly KindTimes[]
  /** Lines and pools: how many stand in them now, and the most that ever did. */
  readonly lanes: readonly LaneDepth[]
  /** The slowest turns of the last one to two hours. */
  readonly slowest: readonly SlowTurnView[]
  /** Locks that were waited for, longest first. */
  readonly keys: readonly KeyWaitView[]
  /** What did not fit, and so is counted under `other` or not at all. */
  readonly overflow: {
    readonly kinds: number
    readonly tickets: number
    readonly cells: number
    readonly keys: number
  }
}

export interface HolderTotal {
  readonly holder: string
  readonly ms: number
}

export interface MatrixCell {
  readonly waiter: string
  readonly holder: string
  /** How long the waiter waited on the holder, in all. */
  readonly ms: number
  /** In how many waits the holder had a share. */
  readonly count: number
}

export interface KindTimes {
  readonly kind: string
  /** Where it stands in line; null when it does not. */
  readonly lane: string | null
  readonly wait: Distribution
  readonly hold: Distribution
}

/** How long something took. Percentiles are within 2 %. */
export interface Distribution {
  readonly count: number
  readonly sumMs: number
  readonly maxMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
}

export interface LaneDepth {
  readonly lane: string
  /** How many may have a turn at once. */
  readonly size: number
  readonly waiting: number
  readonly peakWaiting: number
  readonly holding: number
}

export interface SlowTurnView {
  readonly kind: string
  /** Null also for those who may not see every namespace. */
  readonly what: string | null
  readonly waitMs: number
  readonly holdMs: number
  /** When it ended. */
  readonly at: number
}

export interface KeyWaitView {
  readonly namespace: string
  readonly operation: string
  readonly resource: string
  /** Who holds it, as far as this process knows. */
  readonly holder: string | null
  /** Up to 100 of those who wait. */
  readonly waiters: readonly { readonly node: string; readonly since: number }[]
  /** Waits that are over. */
  readonly waitCount: number
  /** All waits together, also those that go on. */
  readonly waitedMs: number
  /** The longest wait that is over. */
  readonly maxWaitMs: number
  /** In whose turns they waited; null: it is not known here, or they were too many. */
  readonly heldBy: readonly { readonly node: string | null; readonly ms: number }[]
}
