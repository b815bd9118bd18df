import { type ClockReading, readClock } from './clocks.ts'

/**
 * What a store's server says of itself when it is asked directly, by its own driver: the time, and whether the
 * connection is encrypted. Nothing is written, not even what a store writes when it is opened.
 */
export interface Probe {
  readonly clock: ClockReading
  readonly isEncrypted: boolean
}

const timeoutMs = 5_000

/** Undefined: this store is on this machine and has its clock. */
export async function probeDatabase(name: string, url: string): Promise<Probe | undefined> {
  if (/^postgres(ql)?:/.test(url)) return probePostgres(name, url)
  if (/^(mysql|mariadb):/.test(url)) return probeMariadb(name, url)
  return undefined
}

async function probePostgres(name: string, address: string): Promise<Probe> {
  const { default: pg } = await import('pg')
  const url = new URL(address)
  // Ours, not the driver's.
  url.searchParams.delete('schema')
  url.searchParams.delete('pool')
  const client = new pg.Client({
    connectionString: url.href,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const clock = await readClock(name, async () => {
      const { rows } = await client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now')
      return Number(rows[0].now)
    })
    const { rows } = await client.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return { clock, isEncrypted: rows[0]?.ssl === true }
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function probeMariadb(name: string, address: string): Promise<Probe> {
  const { createConnection } = await import('mysql2/promise')
  const url = new URL(address)
  const socketPath = url.searchParams.get('socket')
  const connection = await createConnection({
    ...(socketPath === null
      ? { host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1', port: Number(url.port || 3306) }
      : { socketPath }),
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
    connectTimeout: timeoutMs,
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  })
  const ask = async (sql: string) => {
    const [rows] = await connection.query({ sql, timeout: timeoutMs })
    return (rows as readonly Record<string, unknown>[])[0]
  }
  try {
    const clock = await readClock(name, async () =>
      Number((await ask('SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS now'))?.now),
    )
    const cipher = await ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    return { clock, isEncrypted: socketPath !== null || Boolean(cipher?.Value) }
  } finally {
    connection.destroy()
  }
}
