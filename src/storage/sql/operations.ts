import { count, last, many, type Operation, one, operation } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/** Operations that many stores share: reads with one statement, and upkeep that deletes old rows. */

/** Reads with one statement and returns the decoded rows. */
export function readAll<const Args extends readonly unknown[], Value>(
  name: string,
  bind: (...args: Args) => Bound,
  decode: (row: never) => Value,
): Operation<Args, readonly Value[]> {
  return operation({
    name,
    isRead: true,
    *procedure(...args: Args) {
      return (yield* many<never>(bind(...args))).map((row) => decode(row))
    },
  })
}

/** Reads with one statement and returns the decoded first row, if any. */
export function readOne<const Args extends readonly unknown[], Value>(
  name: string,
  bind: (...args: Args) => Bound,
  decode: (row: never) => Value,
): Operation<Args, Value | undefined> {
  return operation({
    name,
    isRead: true,
    *procedure(...args: Args) {
      const row = yield* one<never>(bind(...args))
      return row === undefined ? undefined : decode(row)
    },
  })
}

/** Reads namespaces from a column `namespace`. */
export function readNamespaces(
  name: string,
  bind: (query: { readonly limit: number }) => Bound,
): Operation<readonly [limit: number], readonly string[]> {
  return readAll(
    name,
    (limit: number) => bind({ limit }),
    (row: { readonly namespace: string }) => row.namespace,
  )
}

/** How old a row must be, and how many rows to delete. */
export interface Age {
  readonly olderThanMs: number
  readonly limit: number
}

export interface OldRows {
  /** The prefix of the statements' names. */
  readonly statements: string
  readonly table: string
  /** The column of the primary key that follows the namespace. */
  readonly key: string
  /** The time from which the age of a row counts. */
  readonly at: string
  /** @default `at` */
  readonly orderBy?: string
  /** An index to force. */
  readonly index?: string
}

/** Deletes up to `limit` old rows of a namespace and returns their number. */
export function pruneOld(
  name: string,
  { statements, table, key, at, orderBy = at, index }: OldRows,
): Operation<readonly [namespace: string, age: Age], number> {
  const isOld = statement(
    `${statements}_is_old`,
    { namespace: 'text', olderThanMs: 'integer' },
    (d) => `
SELECT 1 FROM @${table} ${index === undefined ? '' : d.byIndex(index)}
WHERE namespace = :namespace AND ${at} < ${d.now} - :olderThanMs LIMIT 1`,
  )
  const deleteOld = statement(
    `${statements}_prune`,
    { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
    (d) =>
      d.deleteFirst({
        from: `@${table}`,
        key: `namespace, ${key}`,
        where: `namespace = :namespace AND ${at} < ${d.now} - :olderThanMs`,
        orderBy,
        limit: ':limit',
      }),
  )
  return operation({
    name,
    procedure: (namespace: string, { olderThanMs, limit }: Age) =>
      last(count(deleteOld({ namespace, olderThanMs, limit }))),
    upkeep: {
      *isNeeded(namespace: string, { olderThanMs }: Age) {
        return (yield* one(isOld({ namespace, olderThanMs }))) !== undefined
      },
      otherwise: 0,
    },
  })
}
