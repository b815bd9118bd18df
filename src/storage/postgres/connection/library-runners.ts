import { type CustomTypesConfig, types } from 'pg'
import {
  askKysely,
  askPrisma,
  type KyselyTx,
  type PostgresJs,
  type PrismaTx,
} from '../../library-transaction.ts'
import type { Runner } from './connection.ts'

/**
 * Runners for libraries that show no `pg` client: our statements go through their own way to run a text, and what they
 * answer is brought into the form that `pg` gives.
 */
export function throughKysely(tx: KyselyTx): Runner {
  return toRunner((text, values) => askKysely(tx, text, values))
}

/**
 * postgres.js may be set to give other types and other names. Its rows are taken raw and read as `pg` reads them; names
 * in camel, Pascal or kebab case are led back to the ones we gave.
 */
export function throughPostgresJs(sql: PostgresJs): Runner {
  return toRunner(async (text, values) => {
    const rows = await sql.unsafe(text, values.map(toParameter)).raw()
    const columns = (rows.columns ?? []).map(({ name, type }) => ({
      name: toSnakeCase(name),
      parse: ownTypes.getTypeParser(type, 'text') as (text: string) => unknown,
    }))
    return rows.map((row) =>
      Object.fromEntries(
        columns.map(({ name, parse }, at) => {
          const value = row[at]
          return [name, value ? parse(Buffer.from(value).toString()) : null]
        }),
      ),
    )
  })
}

/**
 * How our answers are read, whatever a program has told `pg` about types: for one client, or for all of them. A `false`
 * that is read as the text `f` would count as true, and a lease that was lost as held.
 */
export const ownTypes: Pick<CustomTypesConfig, 'getTypeParser'> = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    const own = format === 'binary' ? undefined : readers.get(oid)
    return own ?? types.getTypeParser(oid, format as 'text')
  },
}

const asText = (text: string) => text
/** By the ids that Postgres has for bool, int8, int2, int4 and text. */
const readers: ReadonlyMap<number, (text: string) => unknown> = new Map<number, (text: string) => unknown>([
  [16, (text) => text === 't'],
  [20, asText],
  [21, Number],
  [23, Number],
  [25, asText],
])

/** The same client, for statements of ours. */
export function throughPg(client: Runner): Runner {
  const known = spoken.get(client)
  if (known !== undefined) return known
  const query = (text: string, values: readonly unknown[] = []) =>
    client.query({ text, values: [...values], types: ownTypes })
  const runner = { query: query as unknown as Runner['query'] }
  spoken.set(client, runner)
  return runner
}

/** One for each, so that whoever remembers something about a client knows it again. */
const spoken = new WeakMap<Runner, Runner>()

/** Prisma gives large integers as bigint, `pg` as text. */
export function throughPrisma(tx: PrismaTx): Runner {
  return toRunner(async (text, values) => {
    const rows = await askPrisma(tx, text, values.map(toParameter))
    return rows.map((row) =>
      Object.fromEntries(
        Object.entries(row as object).map(([name, value]) => [
          name,
          typeof value === 'bigint' ? String(value) : value,
        ]),
      ),
    )
  })
}

function toRunner(ask: (text: string, values: readonly unknown[]) => Promise<readonly unknown[]>): Runner {
  const query = async (text: string, values: readonly unknown[] = []) => {
    const rows = await ask(text, values)
    return { rows, rowCount: rows.length }
  }
  return { query: query as unknown as Runner['query'] }
}

/** An array as the literal that Postgres reads: libraries would guess its type from the first element. */
export function toParameter(value: unknown): unknown {
  if (value === undefined) return null
  if (!Array.isArray(value)) return value
  const items = value.map((item: unknown) =>
    item === null || item === undefined ? 'NULL' : `"${String(item).replace(/["\\]/g, '\\$&')}"`,
  )
  return `{${items.join(',')}}`
}

export function toSnakeCase(name: string): string {
  return name
    .replaceAll('-', '_')
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .toLowerCase()
}
