import type { Client } from 'pg'
import { sqlState } from './failures.ts'

/** A statement of the store: its text, and the name under which it is prepared. */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** Runs statements in order. A pipelined client accepts the next one before the last is answered. */
export type Runner = Pick<Client, 'query'>

/** Builds the statements of a schema once. Namespaces share them. The schema name is quoted. */
export function perSchema<Statements>(make: (schema: string) => Statements): (schema: string) => Statements {
  const made = new Map<string, Statements>()
  return (schema) => {
    const known = made.get(schema)
    if (known !== undefined) return known
    const statements = make(schema)
    made.set(schema, statements)
    return statements
  }
}

/**
 * The database's clock, in epoch milliseconds: rounded down, so that nothing is due before its time. `date_part` gives
 * a float, with which Postgres computes much faster than with the numeric of `extract`.
 */
export const nowMs = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint"

/**
 * Rows go to the server as one array per column. Most columns of a batch have the same value in all rows, and then one
 * element is enough: the statement reads a missing element as the first one (columns that are never null) or as null.
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
 * Separates texts that are sent as one text; `string_to_array` splits it again, so no quotes are needed. No id has this
 * character, and JSON escapes control characters.
 */
export const between = '\x1f'

/**
 * An expression that fails unless the condition holds, so that a COMMIT sent right after its statement is a rollback.
 * It is an impossible cast, so the schema needs no function for it.
 */
export function failUnless(condition: string, reason: string): string {
  return `CAST(CASE WHEN ${condition} THEN '0' ELSE '${markOf(reason)}' END AS integer)`
}

/** Whether the error comes from `failUnless` with this reason. */
export function isRefusal(error: unknown, reason: string): boolean {
  const { cause } = (error ?? {}) as { readonly cause?: unknown }
  const refused = sqlState(error) === undefined ? cause : error
  return sqlState(refused) === '22P02' && String((refused as Error).message).includes(markOf(reason))
}

function markOf(reason: string): string {
  return `signalbox refuses: ${reason}`
}
