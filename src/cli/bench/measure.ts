import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

/** What came of one case. */
export interface BenchLine {
  readonly name: string
  /** What is counted, for people. */
  readonly what: string
  readonly count: number
  readonly perSecond: number
  /** How long one took, of the middle one and of the slowest hundredth; null where many are done together. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** How many this database could do at the most, if nothing but its commits took time; null where that says nothing. */
  readonly rawPerSecond: number | null
}

/** What a case is measured with. */
export interface Bench {
  /** How long a case takes. */
  readonly caseMs: number
  readonly signal: AbortSignal
  /** Called now and then, with what is being done. */
  readonly tick: (what: string) => void
}

export interface Measured {
  /** How many were counted, after the warming up. */
  readonly count: number
  /** How many there were in all. */
  readonly turns: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface RepeatOptions {
  readonly name: string
  /** How many run at once. @default 1 */
  readonly width?: number
  /** The most turns. @default any number */
  readonly most?: number
  /** The longest random pause before each. @default none */
  readonly pauseMs?: number
}

/** Repeats `turn` for the time of a case. The first tenth of the time warms up and is not counted. */
export async function repeat(
  { caseMs, signal, tick }: Bench,
  { name, width = 1, most = Number.POSITIVE_INFINITY, pauseMs = 0 }: RepeatOptions,
  turn: (number: number) => Promise<unknown>,
): Promise<Measured> {
  const took: number[] = []
  let begun = 0
  const startedAt = performance.now()
  const countFrom = startedAt + caseMs / 10
  const endsAt = startedAt + caseMs
  let firstAt = 0
  let lastAt = 0
  const lane = async (): Promise<void> => {
    // However slow it is, one is counted.
    while (begun < most && (performance.now() < endsAt || took.length === 0)) {
      signal.throwIfAborted()
      const number = begun++
      if (pauseMs > 0) await sleep(Math.random() * pauseMs)
      const from = performance.now()
      await turn(number)
      const at = performance.now()
      tick(name)
      if (from < countFrom && begun < most) continue
      firstAt ||= from
      lastAt = at
      took.push(at - from)
    }
  }
  await Promise.all(Array.from({ length: width }, lane))
  return {
    count: took.length,
    turns: begun,
    perSecond: took.length === 0 ? 0 : (took.length / Math.max(0.001, lastAt - firstAt)) * 1_000,
    p50Ms: percentile(took, 0.5),
    p99Ms: percentile(took, 0.99),
  }
}

/** The part of a measurement that is shown. */
export function lineOf(
  name: string,
  what: string,
  { count, perSecond, p50Ms, p99Ms }: Omit<Measured, 'turns'>,
  rawPerSecond: number | null = null,
): BenchLine {
  return { name, what, count, perSecond, p50Ms, p99Ms, rawPerSecond }
}

/** The value that this part of them does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0
}

/**
 * The raw rate of a database: it writes and commits one row after the other. The table for it is created and dropped here, so
 * it needs the right to create tables.
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
