import { randomBytes } from 'node:crypto'
import { type Bench, repeat } from './measure.ts'

/**
 * What a database does at the most: one row written and committed, and then the next, with nothing around it. The table
 * for it is made and dropped here. Without the right to create tables there is no such figure, but the reason.
 */
export interface Raw {
  readonly commitsPerSecond: number
}

/** One connection and the statements on it; placeholders differ by engine. */
interface Connection extends AsyncDisposable {
  readonly insert: string
  run(sql: string, values?: readonly unknown[]): Promise<unknown>
}

export async function measureRaw(bench: Bench, database: string): Promise<Raw> {
  await using connection = await connect(database)
  const table = `signalbox_bench_${randomBytes(6).toString('hex')}`
  await connection.run(`CREATE TABLE ${table} (id BIGINT PRIMARY KEY, payload VARCHAR(200) NOT NULL)`)
  try {
    const insert = `INSERT INTO ${table} VALUES ${connection.insert}`
    const payload = JSON.stringify({ to: 'ada@example.org', subject: 'one row' })
    const { perSecond } = await repeat(bench, { name: 'raw commits' }, (number) =>
      connection.run(insert, [number, payload]),
    )
    return { commitsPerSecond: perSecond }
  } finally {
    await connection.run(`DROP TABLE ${table}`)
  }
}

function connect(database: string): Promise<Connection> {
  if (database.startsWith('sqlite:')) return connectSqlite(database)
  return /^(mysql|mariadb):/.test(database) ? connectMariadb(database) : connectPostgres(database)
}

/** As durable as Signalbox's own connection. */
async function connectSqlite(database: string): Promise<Connection> {
  const { DatabaseSync } = await import('node:sqlite')
  const [path, query = ''] = database.replace(/^sqlite:/, '').split('?', 2)
  const file = new DatabaseSync(path!, { timeout: 5_000 })
  const { synchronous = 'full' } = Object.fromEntries(new URLSearchParams(query))
  file.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous === 'normal' ? 'NORMAL' : 'FULL'}`)
  const prepared = new Map<string, ReturnType<typeof file.prepare>>()
  return {
    insert: '(?, ?)',
    async run(sql, values) {
      if (values === undefined) return file.exec(sql)
      const statement = prepared.get(sql) ?? file.prepare(sql)
      prepared.set(sql, statement)
      return statement.run(...(values as [number, string]))
    },
    async [Symbol.asyncDispose]() {
      file.close()
    },
  }
}

async function connectPostgres(database: string): Promise<Connection> {
  const { Client } = (await import('pg')).default
  const url = new URL(database)
  const schema = url.searchParams.get('schema')
  for (const ours of ['schema', 'pool']) url.searchParams.delete(ours)
  const client = new Client({ connectionString: url.href })
  await client.connect()
  if (schema !== null) await client.query(`SET search_path = "${schema.replaceAll('"', '""')}"`)
  return {
    insert: '($1, $2)',
    run: (sql, values) =>
      values === undefined
        ? client.query(sql)
        : client.query({ name: 'insert', text: sql, values: [...values] }),
    [Symbol.asyncDispose]: () => client.end(),
  }
}

async function connectMariadb(database: string): Promise<Connection> {
  const { createConnection } = await import('mysql2/promise')
  const url = new URL(database)
  const socketPath = url.searchParams.get('socket')
  const connection = await createConnection({
    ...(socketPath === null
      ? { host: url.hostname || '127.0.0.1', port: Number(url.port || 3306) }
      : { socketPath }),
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  })
  return {
    insert: '(?, ?)',
    run: (sql, values) =>
      values === undefined ? connection.query(sql) : connection.execute(sql, values as [number, string]),
    [Symbol.asyncDispose]: () => connection.end(),
  }
}
