/**
 * What is remembered of a subject besides its state, as JSON in its row: it is written with the state and under the
 * same condition, so two who decide at once cannot remember different things.
 */
export interface Recall {
  /**
   * The hash of the state that people are taken to know of whom no window says what they heard: the first that was ever
   * seen, then the last that everybody was notified.
   */
  readonly baseline: string
  /** When it changed lately, by the store's clock, oldest first; only where a subscription watches for flapping. */
  readonly changes: readonly number[]
  /** Subscriptions that were notified it is flapping and shall hear no more until it is calm. */
  readonly flapping: readonly string[]
  /** When a job will look at it again; null: none is on its way. */
  readonly lookAgainAt: number | null
  /** The last id of a decision or notification about it; empty: none. */
  readonly lastId: string
}

/** More changes than this are not remembered. */
export const mostChanges = 100

export function encodeRecall({ baseline, changes, flapping, lookAgainAt, lastId }: Recall): string {
  return JSON.stringify({
    baseline,
    ...(changes.length > 0 && { changes }),
    ...(flapping.length > 0 && { flapping }),
    ...(lookAgainAt !== null && { lookAgainAt }),
    ...(lastId !== '' && { lastId }),
  })
}

export function decodeRecall(text: string): Recall {
  return { changes: [], flapping: [], lookAgainAt: null, lastId: '', ...JSON.parse(text) }
}

/** Whether both say the same, and would be the same text. */
export function isSameRecall(one: Recall, other: Recall): boolean {
  return (
    one.baseline === other.baseline &&
    one.lastId === other.lastId &&
    one.lookAgainAt === other.lookAgainAt &&
    isSameList(one.changes, other.changes) &&
    isSameList(one.flapping, other.flapping)
  )
}

function isSameList(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one === other || (one.length === other.length && one.every((item, index) => item === other[index]))
}
