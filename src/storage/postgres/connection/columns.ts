/**
 * Rows go to the server as one array per column, and most columns of a batch hold one value over and over. What can be
 * said in one element is: the statement reads a missing one as the first (columns that are never null) or as null.
 */

/** A column that is never null; the statement reads it as `coalesce(x, ($n::type[])[1])`. */
export function repeated<Value extends string | number>(values: readonly Value[]): readonly Value[] {
  const first = values[0]
  return values.every((value) => value === first) ? values.slice(0, 1) : values
}

/** A column that may be null; the statement reads a missing element as null. */
export function sparse<Value extends string | number>(
  values: readonly (Value | null)[],
): readonly (Value | null)[] {
  return values.every((value) => value === null) ? [] : values
}

/**
 * Stands between texts that go as one, which `string_to_array` takes apart: neither side has to quote anything. No id has
 * it, and no JSON text, where control characters are escaped.
 */
export const between = '\x1f'

/** The database's clock, in epoch milliseconds: rounded down, so that nothing is due before its time. */
export const nowMs = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'
