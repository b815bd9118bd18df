import { SignalboxError } from '../core/errors.ts'
import type { StoreTransaction } from '../jobs/index.ts'

/**
 * Finds the connection inside a transaction object of a library. Callers pass the object of their library, and each
 * library keeps its connection in another place. The functions recognize libraries by the shape of their objects, so
 * none is imported.
 *
 *   MikroORM  em.getTransactionContext()      → Kysely (before its version 7: Knex)
 *   TypeORM   manager.queryRunner.connect()   → the driver's connection
 *   Knex      trx.client.acquireConnection()  → the driver's connection
 *   Drizzle   tx.session.client               → the driver's connection, or postgres.js
 *   Kysely, postgres.js, Prisma               show no connection; each engine runs its statements through them
 *
 * An unknown object is returned unchanged, and the engine's error lists what it accepts.
 */
export async function findInnerTx(tx: unknown): Promise<unknown> {
  let inner = tx
  // The longest chain is MikroORM, then Knex, then the driver.
  for (let steps = 0; steps < 3; steps++) {
    const next = await stepInwards(inner)
    if (next === inner) break
    inner = next
  }
  if (isKysely(inner)) requireOpenKysely(inner)
  if (isPostgresJs(inner) && typeof (inner as { begin?: unknown }).begin === 'function') {
    throw outside('postgres.js', '`sql.begin(async (sql) => …)`')
  }
  return inner
}

type Shape = Readonly<Record<string, unknown>>

async function stepInwards(tx: unknown): Promise<unknown> {
  if (!isShape(tx)) return tx
  if (isFunction(tx.getTransactionContext)) {
    const context: unknown = tx.getTransactionContext()
    if (context === undefined) throw outside('MikroORM', '`em.transactional(async (em) => …)`')
    return context
  }
  if (isFunction(tx.getRepository) && isFunction(tx.transaction)) {
    if (!isShape(tx.queryRunner)) {
      throw outside('TypeORM', '`dataSource.transaction(async (manager) => …)`')
    }
    return connectionOfRunner(tx.queryRunner)
  }
  if (typeof tx.isTransactionActive === 'boolean') return connectionOfRunner(tx)
  if (isShape(tx.client) && isFunction(tx.client.acquireConnection) && isFunction(tx.raw)) {
    const isOpen = tx.isTransaction === true && !(isFunction(tx.isCompleted) && tx.isCompleted())
    if (!isOpen) throw outside('Knex', '`knex.transaction(async (trx) => …)`')
    return tx.client.acquireConnection()
  }
  const client = drizzleClient(tx)
  if (client !== undefined && isPool(client)) {
    throw outside('Drizzle', '`db.transaction(async (tx) => …)`')
  }
  return client ?? tx
}

/** The client under a Drizzle database or transaction; undefined for any other object. */
export function drizzleClient(tx: unknown): unknown {
  if (!isShape(tx) || !isShape(tx.session) || !isShape(tx.dialect)) return undefined
  return tx.session.client
}

/** A released TypeORM runner may already serve another caller, so check its own flag first. */
function connectionOfRunner(runner: Shape): unknown {
  if (runner.isTransactionActive !== true || runner.isReleased === true || !isFunction(runner.connect)) {
    throw outside('TypeORM', '`dataSource.transaction(async (manager) => …)`')
  }
  return runner.connect()
}

/**
 * Whether the connection must be closed to end its transaction. TypeORM counts its nested transactions: when a
 * savepoint is gone, it rolls back no further, and returns a connection to its pool that is still in a transaction.
 */
export function losesCount(tx: unknown): boolean {
  if (!isShape(tx)) return false
  const runner = isShape(tx.queryRunner) ? tx.queryRunner : tx
  return Number(runner.transactionDepth) > 1
}

/** A pool of `pg` or `mysql2`, or the root of postgres.js: each statement may run on another connection. */
function isPool(client: unknown): boolean {
  if (!isShape(client)) return false
  return client.totalCount !== undefined || isFunction(client.getConnection) || isFunction(client.begin)
}

/** A database or transaction of Kysely. */
export interface KyselyTx {
  readonly isTransaction: boolean
  withoutPlugins(): KyselyTx
  executeQuery(query: object): Promise<{ readonly rows: readonly unknown[] }>
}

export function isKysely(tx: unknown): tx is KyselyTx {
  if (!isShape(tx)) return false
  return [tx.getExecutor, tx.executeQuery, tx.withoutPlugins].every(isFunction)
}

function requireOpenKysely(tx: KyselyTx): void {
  const { isCommitted, isRolledBack } = tx as { isCommitted?: boolean; isRolledBack?: boolean }
  if (!tx.isTransaction || isCommitted || isRolledBack) throw outsideKysely()
}

function outsideKysely(cause?: unknown): SignalboxError {
  return outside('Kysely', '`db.transaction().execute(async (trx) => …)`', cause)
}

/** Runs a text without plugins, because plugins would rename the columns of Signalbox's results. */
export async function askKysely(
  tx: KyselyTx,
  sql: string,
  values: readonly unknown[],
): Promise<readonly unknown[]> {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  const asked = { query, sql, parameters: values, queryId: { queryId: 'signalbox' } }
  try {
    return (await tx.withoutPlugins().executeQuery(asked)).rows
  } catch (error) {
    // Only Kysely itself knows that a transaction in its callback form has ended.
    if (/^Transaction is already (committed|rolled back)/.test(String((error as Error)?.message))) {
      throw outsideKysely(error)
    }
    throw error
  }
}

/** A connection, or the root, of postgres.js. */
export interface PostgresJs {
  unsafe(sql: string, values?: readonly unknown[]): { raw(): Promise<RawRows> }
}

/** Rows as the server sent them, and a description of their columns. */
export interface RawRows extends ReadonlyArray<readonly (Uint8Array | null)[]> {
  readonly columns?: readonly { readonly name: string; readonly type: number }[]
}

export function isPostgresJs(tx: unknown): tx is PostgresJs {
  return typeof tx === 'function' && isFunction((tx as unknown as Shape).unsafe)
}

/** A client or a transaction of Prisma. */
export interface PrismaTx {
  $queryRawUnsafe(sql: string, ...values: readonly unknown[]): Promise<readonly unknown[]>
}

export function isPrisma(tx: unknown): tx is PrismaTx {
  return isShape(tx) && isFunction(tx.$queryRawUnsafe)
}

/** Runs a text. If it fails, the error has the database's own code, as with every other driver. */
export async function askPrisma(
  tx: PrismaTx,
  sql: string,
  values: readonly unknown[],
): Promise<readonly unknown[]> {
  try {
    return await tx.$queryRawUnsafe(sql, ...values)
  } catch (error) {
    const { code, meta } = error as { readonly code?: unknown; readonly meta?: PrismaMeta }
    if (code === 'P2028') throw outside('Prisma', '`prisma.$transaction(async (tx) => …)`', error)
    const original = meta?.driverAdapterError?.cause?.originalCode ?? meta?.code
    if (original === undefined) throw error
    throw Object.assign(new Error((error as Error).message, { cause: error }), { code: original })
  }
}

/** Where Prisma keeps the database's code: with driver adapters, and without them. */
interface PrismaMeta {
  readonly driverAdapterError?: { readonly cause?: { readonly originalCode?: string } }
  readonly code?: string
}

function isShape(value: unknown): value is Shape {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function isFunction(value: unknown): value is (...args: readonly unknown[]) => unknown {
  return typeof value === 'function'
}

function outside(library: string, way: string, cause?: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_required',
    `tx is of ${library}, but not in a transaction, or in one that has ended. Hand in what ${way} gives you.`,
    cause === undefined ? {} : { cause },
  )
}

/**
 * Whether a caller's `tx` is the one that `job.transaction` gave them. Signalbox accepts it like a transaction of the
 * caller's library: callers often add the next job in the transaction that completes the current one.
 */
export function isStoreTransaction(tx: unknown): tx is StoreTransaction {
  if (typeof tx !== 'object' || tx === null) return false
  const { query, sql } = tx as { query?: unknown; sql?: unknown }
  return typeof query === 'function' && typeof sql === 'function' && 'raw' in tx
}
