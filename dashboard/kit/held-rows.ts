/**
 * Rows that stand still while the reader points at a table or has selected some of it: no row moves away from under the
 * pointer. Rows that are known get new values in place; a row that left the list stays where it was, marked; new ones
 * wait until the reader lets them in.
 *
 *     asked for:  d c b    held: [c b a]    shown: c, b, a (gone)    waiting: d
 */
export interface SteadyRow<Row> {
  readonly key: string
  readonly row: Row
  /** No longer in the list: shown as it last was. */
  readonly isGone: boolean
}

/** What is shown of held rows. */
export interface ShownRows<Row> {
  readonly rows: readonly SteadyRow<Row>[]
  /** Rows that are not shown yet. */
  readonly newCount: number
  readonly goneCount: number
}

/** Rows by their keys, in the order in which they are shown. */
export type HeldRows<Row> = ReadonlyMap<string, Row>

/** The rows as they are now. Selected rows that are in them no longer follow behind. */
export function holdRows<Row>(
  now: readonly Row[],
  rowKey: (row: Row) => string,
  before: HeldRows<Row>,
  selected: ReadonlySet<string>,
): HeldRows<Row> {
  const held = new Map(now.map((row) => [rowKey(row), row]))
  for (const [key, row] of before) if (selected.has(key) && !held.has(key)) held.set(key, row)
  return held
}

/** The values to show in the held rows, given the rows of the newest answer. */
export function showRows<Row>(
  held: HeldRows<Row>,
  now: readonly Row[],
  rowKey: (row: Row) => string,
): ShownRows<Row> {
  const newest = new Map(now.map((row) => [rowKey(row), row]))
  const rows = Array.from(held, ([key, row]) => {
    const fresh = newest.get(key)
    return { key, row: fresh ?? row, isGone: fresh === undefined }
  })
  const newCount = [...newest.keys()].filter((key) => !held.has(key)).length
  return { rows, newCount, goneCount: rows.filter(({ isGone }) => isGone).length }
}
