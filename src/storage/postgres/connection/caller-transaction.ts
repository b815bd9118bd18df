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
 * A transaction of the caller's own, by its shape: a `pg` Client or a client lent by a Pool, with BEGIN behind it, or
 * the transaction of a library (see library-transaction.ts). A pool is refused: each of its statements may run on another
 * connection, in no transaction at all.
 */
export async function requireTransaction(tx: unknown): Promise<Runner> {
  // Ours: BEGIN is on its way, though perhaps not answered, so the connection's status says nothing yet.
  if (isStoreTransaction(tx)) return tx.raw as Runner
  const inner = await findInnerTx(tx)
  const library = throughLibrary(inner)
  if (library !== undefined) return probed(library)
  const shape = inner as { query?: unknown; idleCount?: unknown; totalCount?: unknown } | null | undefined
  if (typeof shape !== 'object' || shape === null || typeof shape.query !== 'function') {
    throw notTaken()
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
  // On a pipelined connection BEGIN may have been sent and not answered yet; there only the server knows.
  const mayBeLate = (inner as { pipeline?: unknown }).pipeline === true
  if (status === 'I' && !mayBeLate) throw notInTransaction()
  if (status === 'E') throw failedAlready()
  return status === null || status === 'I' ? probed(client) : client
}

/** A runner for a library that shows no `pg` client. */
function throughLibrary(inner: unknown): Runner | undefined {
  if (isKysely(inner)) return throughKysely(inner)
  if (isPostgresJs(inner)) return throughPostgresJs(inner)
  return isPrisma(inner) ? throughPrisma(inner) : undefined
}

/**
 * Ends the caller's transaction (see core/caller-transaction.ts). A failed statement alone would not: a caller in a
 * savepoint could go back to it, and commit what was written before. So all of it is rolled back, and the transaction
 * that takes its place, in which there is no savepoint, has failed from the start: every statement in it is refused, and
 * COMMIT rolls back. Outside a transaction the first statement is refused, and the second is not looked at.
 */
export async function endTransaction(tx: unknown, error: unknown): Promise<void> {
  if (isStoreTransaction(tx)) {
    refuseCommit(tx, error)
    return
  }
  const inner = await findInnerTx(tx)
  const client = throughLibrary(inner) ?? (inner as Runner)
  try {
    // One text without values: it goes to the server as one message, and nothing comes between.
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

/** For a client that does not tell: a savepoint is refused outside a transaction, and harmless inside one. */
async function probed(client: Runner): Promise<Runner> {
  try {
    const answer: unknown = await client.query('SAVEPOINT signalbox_probe')
    await client.query('RELEASE SAVEPOINT signalbox_probe')
    // It takes statements and gives something else, as pg-promise does; found out later, our rows would be written.
    if (!Array.isArray((answer as { rows?: unknown } | undefined)?.rows)) throw notTaken()
    return client
  } catch (error) {
    if (sqlState(error) === '25P01') throw notInTransaction(error)
    if (sqlState(error) === '25P02') throw failedAlready(error)
    throw error
  }
}

/** A client of `pg` itself, which can be told how to read an answer. */
function isPg(client: unknown): boolean {
  return typeof (client as { getTypeParser?: unknown }).getTypeParser === 'function'
}

/** A client of `pg` that has ended or never connected: it would queue the statement for ever. */
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

function notTaken(): SignalboxError {
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

/** The tables are not there, or they are another store's. */
export function wrongDatabase(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'wrong_database',
    'The transaction handed in as tx is connected to another database (or schema) than this store. Use a connection to the same one.',
    cause === undefined ? {} : { cause },
  )
}

/** Runs statements of ours in the caller's transaction. */
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

/** One wrapper per client, so that WeakMaps keyed by the client find it again. */
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
