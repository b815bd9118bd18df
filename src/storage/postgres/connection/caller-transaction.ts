import { type Client, type CustomTypesConfig, types } from 'pg'
import { refuseCommit } from '../../../core/caller-transaction.ts'
import { SignalboxError } from '../../../core/errors.ts'
import {
  askKysely,
  askPrisma,
  findInnerTx,
  isKysely,
  isPostgresJs,
  isPrisma,
  isStoreTransaction,
  type KyselyTx,
  losesCount,
  type PostgresJs,
  type PrismaTx,
} from '../../library-transaction.ts'
import { sqlState } from './failures.ts'
import { statusOf } from './pipeline.ts'
import type { Runner } from './statement.ts'

/**
 * Checks the shape of a caller's transaction. Accepts a `pg` Client or a client lent by a Pool, after BEGIN, or the
 * transaction of a library (see library-transaction.ts). Refuses a pool: each of its statements may run on another
 * connection, without a transaction.
 */
export async function requireTransaction(tx: unknown): Promise<Runner> {
  // The store's own transaction: BEGIN may not be answered yet, so the status of the connection says nothing.
  if (isStoreTransaction(tx)) return tx.raw as Runner
  const inner = await findInnerTx(tx)
  const library = throughLibrary(inner)
  if (library !== undefined) return probed(library)
  const shape = inner as { query?: unknown; idleCount?: unknown; totalCount?: unknown } | null | undefined
  if (typeof shape !== 'object' || shape === null || typeof shape.query !== 'function') {
    throw notSupported()
  }
  if (shape.idleCount !== undefined || shape.totalCount !== undefined) {
    throw new SignalboxError(
      'invalid_argument',
      'tx is a pool, and each statement of a pool may run on another connection. Hand in the client that pool.connect() gave you, after BEGIN.',
    )
  }
  if (isOffline(inner)) throw notInTransaction()
  const client = isPg(inner) ? throughPg(inner as Runner) : (inner as Runner)
  const status = statusOf(inner)
  // On a pipelined connection, BEGIN may not be answered yet, so only the server knows.
  const mayBeLate = (inner as { pipeline?: unknown }).pipeline === true
  if (status === 'I' && !mayBeLate) throw notInTransaction()
  if (status === 'E') throw failedAlready()
  return status === null || status === 'I' ? probed(client) : client
}

/** A runner for a library that does not expose a `pg` client. */
function throughLibrary(inner: unknown): Runner | undefined {
  if (isKysely(inner)) return throughKysely(inner)
  if (isPostgresJs(inner)) return throughPostgresJs(inner)
  return isPrisma(inner) ? throughPrisma(inner) : undefined
}

/**
 * Ends the caller's transaction (see core/caller-transaction.ts). A failed statement alone is not enough: a caller
 * could roll back to a savepoint and commit the earlier writes. So this rolls back everything and begins a transaction
 * without savepoints, which fails at once: the server refuses every statement in it, and COMMIT rolls back. Outside a
 * transaction the server refuses the first statement and skips the second.
 */
export async function endTransaction(tx: unknown, error: unknown): Promise<void> {
  if (isStoreTransaction(tx)) {
    refuseCommit(tx, error)
    return
  }
  const inner = await findInnerTx(tx)
  const client = throughLibrary(inner) ?? (inner as Runner)
  try {
    // One text without values is one message, so no other statement can come between.
    await fail(client, `${beginAnew}; ${raise}`)
  } catch (error) {
    // A client that prepares every text takes one statement at a time.
    if (sqlState(error) !== '42601') throw error
    await client.query(beginAnew)
    await fail(client, raise)
  }
  if (losesCount(tx)) await (inner as Client).end()
}

const endedState = 'SBX04'
const beginAnew = 'ROLLBACK AND CHAIN'
const raise = `DO $$ BEGIN
  RAISE EXCEPTION 'Signalbox ended this transaction after an error. Roll it back.' USING ERRCODE = '${endedState}';
END $$`

async function fail(client: Runner, text: string): Promise<void> {
  try {
    await client.query(text)
  } catch (error) {
    if (sqlState(error) !== endedState) throw error
  }
}

/** Checks a client that hides its status: a savepoint fails outside a transaction and is harmless inside one. */
async function probed(client: Runner): Promise<Runner> {
  try {
    const answer: unknown = await client.query('SAVEPOINT signalbox_probe')
    await client.query('RELEASE SAVEPOINT signalbox_probe')
    // Some clients, such as pg-promise, answer in another form. Refuse them now, before the store writes rows.
    if (!Array.isArray((answer as { rows?: unknown } | undefined)?.rows)) throw notSupported()
    return client
  } catch (error) {
    if (sqlState(error) === '25P01') throw notInTransaction(error)
    if (sqlState(error) === '25P02') throw failedAlready(error)
    throw error
  }
}

/** Whether it is a client of `pg` itself, which accepts type parsers for a query. */
function isPg(client: unknown): boolean {
  return typeof (client as { getTypeParser?: unknown }).getTypeParser === 'function'
}

/** Whether a client of `pg` has ended or never connected: it would queue the statement for ever. */
function isOffline(client: unknown): boolean {
  const { _ending, _connected, _connecting } = client as {
    readonly _ending?: unknown
    readonly _connected?: unknown
    readonly _connecting?: unknown
  }
  return _ending === true || (_connected === false && _connecting === false)
}

function failedAlready(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_required',
    'The transaction of tx has failed already: an earlier statement in it ended in an error. Roll it back; nothing can be written in it.',
    cause === undefined ? {} : { cause },
  )
}

function notSupported(): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    'tx must be a `pg` client with an open transaction (a Client, or one that a Pool lent), or the transaction of a library that Signalbox knows.',
  )
}

function notInTransaction(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_required',
    'tx is not in a transaction. Run BEGIN on it first, and COMMIT when you are done.',
    cause === undefined ? {} : { cause },
  )
}

/** The tables are missing, or they belong to another store. */
export function wrongDatabase(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'wrong_database',
    'The transaction handed in as tx is connected to another database (or schema) than this store. Use a connection to the same one.',
    cause === undefined ? {} : { cause },
  )
}

/** Runs statements of the store in the caller's transaction. */
export async function inCallers<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw isMissing(error) ? wrongDatabase(error) : error
  }
}

function isMissing(error: unknown): boolean {
  return ['42P01', '3F000', '42883', '42704'].includes(sqlState(error) ?? '')
}

/**
 * Runners for libraries that do not expose a `pg` client. They run the store's statements through the library, and turn
 * its answers into the form of `pg`.
 */
export function throughKysely(tx: KyselyTx): Runner {
  return toRunner((text, values) => askKysely(tx, text, values))
}

/**
 * A program may configure postgres.js to change types and names. So the runner takes raw rows and reads them as `pg`
 * does. It turns names in camel, Pascal or kebab case back into the names of the statement.
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
 * The type parsers for the store's answers, whatever parsers a program has set in `pg`. If `false` were read as the
 * text `f`, it would count as true, and a lost lease as held.
 */
export const ownTypes: Pick<CustomTypesConfig, 'getTypeParser'> = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    const own = format === 'binary' ? undefined : readers.get(oid)
    return own ?? types.getTypeParser(oid, format as 'text')
  },
}

const asText = (text: string) => text
/** Keys are the type ids of bool, int8, int2, int4 and text. */
const readers: ReadonlyMap<number, (text: string) => unknown> = new Map<number, (text: string) => unknown>([
  [16, (text) => text === 't'],
  [20, asText],
  [21, Number],
  [23, Number],
  [25, asText],
])

/** A runner over this client that uses the store's type parsers. */
export function throughPg(client: Runner): Runner {
  const known = runners.get(client)
  if (known !== undefined) return known
  const query = (text: string, values: readonly unknown[] = []) =>
    client.query({ text, values: [...values], types: ownTypes })
  const runner = { query: query as unknown as Runner['query'] }
  runners.set(client, runner)
  return runner
}

/** One wrapper per client, so that WeakMaps keyed by the client find it again. */
const runners = new WeakMap<Runner, Runner>()

/** Prisma returns large integers as bigint, `pg` returns them as text. */
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

function toRunner(run: (text: string, values: readonly unknown[]) => Promise<readonly unknown[]>): Runner {
  const query = async (text: string, values: readonly unknown[] = []) => {
    const rows = await run(text, values)
    return { rows, rowCount: rows.length }
  }
  return { query: query as unknown as Runner['query'] }
}

/** Writes an array as a Postgres literal: libraries would guess its type from the first element. */
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
