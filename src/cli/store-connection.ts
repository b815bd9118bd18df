/**
 * A connection by the database's own driver. Unlike a store, it writes nothing when it opens, and a measurement has only
 * the time of the database.
 */
export interface StoreConnection extends AsyncDisposable {
  /** The placeholders of two values of an INSERT. */
  readonly twoValues: string
  /** Returns the rows. A statement with values is prepared once. */
  query(sql: string, values?: readonly unknown[]): Promise<readonly Readonly<Record<string, unknown>>[]>
}

/** `timeoutMs` bounds connecting and each statement. @default the driver's */
export async function connectStore(database: string, timeoutMs?: number): Promise<StoreConnection> {
  if (database.startsWith('sqlite:')) return connectSqlite(database)
  return /^(mysql|mariadb):/.test(database)
    ? connectMariadb(new URL(database), timeoutMs)
    : connectPostgres(new URL(database), timeoutMs)
}

/** Uses the same durability as Signalbox. */
async function connectSqlite(database: string): Promise<StoreConnection> {
  const { DatabaseSync } = await import('node:sqlite')
  const [path, query = ''] = database.replace(/^sqlite:/, '').split('?', 2)
  const file = new DatabaseSync(path!, { timeout: 5_000 })
  const isNormal = new URLSearchParams(query).get('synchronous') === 'normal'
  file.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${isNormal ? 'NORMAL' : 'FULL'}`)
  const prepared = new Map<string, ReturnType<typeof file.prepare>>()
  return {
    twoValues: '(?, ?)',
    async query(sql, values = []) {
      const statement = prepared.get(sql) ?? file.prepare(sql)
      prepared.set(sql, statement)
      return statement.all(...(values as [number, string]))
    },
    [Symbol.asyncDispose]: async () => file.close(),
  }
}

async function connectPostgres(url: URL, timeoutMs: number | undefined): Promise<StoreConnection> {
  const { Client } = (await import('pg')).default
  const schema = url.searchParams.get('schema')
  // The driver does not know these parameters of Signalbox.
  for (const name of ['schema', 'pool']) url.searchParams.delete(name)
  const limits = { connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs }
  const client = new Client({ connectionString: url.href, ...(timeoutMs && limits) })
  client.on('error', () => undefined)
  await client.connect()
  if (schema !== null) await client.query(`SET search_path = "${schema.replaceAll('"', '""')}"`)
  return {
    twoValues: '($1, $2)',
    async query(sql, values) {
      const prepared = values && { name: 'prepared', text: sql, values: [...values] }
      return (await client.query(prepared ?? sql)).rows
    },
    [Symbol.asyncDispose]: () => client.end().catch(() => undefined),
  }
}

async function connectMariadb(url: URL, timeoutMs: number | undefined): Promise<StoreConnection> {
  const { createConnection } = await import('mysql2/promise')
  const socketPath = url.searchParams.get('socket')
  const host = { host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1', port: Number(url.port || 3306) }
  const connection = await createConnection({
    ...(socketPath === null ? host : { socketPath }),
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    ...(timeoutMs && { connectTimeout: timeoutMs }),
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  })
  const limit = timeoutMs && { timeout: timeoutMs }
  return {
    twoValues: '(?, ?)',
    async query(sql, values) {
      const [rows] = await (values === undefined
        ? connection.query({ sql, ...limit })
        : connection.execute({ sql, ...limit, values: values as [number, string] }))
      return rows as readonly Record<string, unknown>[]
    },
    [Symbol.asyncDispose]: async () => connection.destroy(),
  }
}
