import { count, last, many, type Operation, one, operation } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/** Operations that many stores have: reads by one statement, and upkeep that deletes what is old. */

/** Reads by one statement; answers what each row is decoded to. */
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

/** The same of the first row, if there is one. */
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

/** Reads namespaces, from a column of that name. */
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

/** Which rows are old, and how many of them to delete. */
export interface Age {
  readonly olderThanMs: number
  readonly limit: number
}

export interface OldRows {
  /** The beginning of the names of its statements. */
  readonly statements: string
  readonly table: string
  /** Behind the namespace. */
  readonly key: string
  /** The column that says how old a row is. */
  readonly at: string
  /** @default `at` */
  readonly orderBy?: string
  /** An index to look by. */
  readonly index?: string
}

/** Deletes up to `limit` old rows of a namespace; answers how many. */
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
